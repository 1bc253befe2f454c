# SPDX-License-Identifier: GPL-2.0-or-later
# kexec: the running kernel starts the next one, without firmware and boot loader. Devices keep
# the state that the old kernel left, so it is not a cold boot.
# shellcheck shell=sh

LOADED=/sys/kernel/kexec_loaded
# In memory only, as the loaded kernel: both are gone after a boot.
NOTE=/run/schedperf-kexec
# shellcheck disable=SC2034 # read by check
KNOWS_DEFAULT=no

hook_applies() {
    if [ ! -e "$LOADED" ]; then
        problem "the running kernel has no kexec (expected $LOADED)" \
            "boot a kernel with CONFIG_KEXEC=y"
        return 1
    fi
    if ! have kexec; then
        problem "kexec is not installed" "install it, e.g. apt install kexec-tools"
        return 1
    fi
}

hook_check() {
    if [ "$(cat /proc/sys/kernel/kexec_load_disabled 2>/dev/null)" = 1 ]; then
        problem "kernel.kexec_load_disabled is 1 until the next boot" "reboot; then do not set it"
    fi
    if image=$(find_image "$1"); then
        passed "kernel $image"
        check_signature "$image"
    else
        problem "/boot has no kernel $1 (expected e.g. /boot/vmlinuz-$1)" "install this kernel"
    fi
    if initrd=$(find_initrd "$1"); then
        passed "initrd $initrd"
    else
        check_without_initrd "$1" "$(parameters)"
    fi
}

# Print the running kernel's parameters, without those that boot loaders add.
parameters() {
    tr ' ' '\n' </proc/cmdline | grep -Ev '^(BOOT_IMAGE|initrd)=' | tr '\n' ' ' | sed 's/ *$//'
}

hook_arm() {
    image=$(find_image "$1") || {
        problem "/boot has no kernel $1" "install this kernel"
        return 1
    }
    set -- "$1" "$image" "--command-line=$(parameters)"
    if initrd=$(find_initrd "$1"); then
        set -- "$@" "--initrd=$initrd"
    fi
    release=$1
    shift
    # -a: by file descriptor where the kernel demands signatures, else by the older call.
    kexec -a -l "$@" || return 1
    printf '%s\n' "$release" >"$NOTE"
}

hook_armed() {
    hook_applies || return 1
    if [ "$(cat "$LOADED")" = 1 ]; then
        cat "$NOTE" 2>/dev/null || printf 'a kernel is loaded\n'
    fi
}

hook_disarm() {
    hook_applies || return 1
    rm -f "$NOTE"
    if [ "$(cat "$LOADED")" = 1 ]; then
        kexec -u
    fi
}

# What boots after power-on is up to the boot loader, which kexec does not know.
hook_default() {
    return 0
}

hook_reboot() {
    if [ "$(cat "$LOADED" 2>/dev/null)" != 1 ]; then
        reboot_machine
    elif have systemctl && [ -d /run/systemd/system ]; then
        systemctl kexec
    else
        sync
        kexec -e
    fi
}
