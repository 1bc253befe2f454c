# SPDX-License-Identifier: GPL-2.0-or-later
# What all boot hooks share: the checks that need no boot, and the dispatch of the verbs.
# A hook is this file, followed by the file of the boot loader, followed by a call of main.
# shellcheck shell=sh

set -u
umask 022
# In this locale awk indexes bytes, and messages of programs are in English.
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin
export LC_ALL PATH

# Edits of the boot loader's environment and new log lines fit in this.
ROOM_KB=16384
LOADER_GUID=4a67b082-0a4c-41cf-b6c7-440b29bb8c4f
GLOBAL_GUID=8be4df61-93ca-11d2-aa0d-00e098032b8c
EFI=/sys/firmware/efi
# Whether the hook of the boot loader can say which kernel boots by default.
KNOWS_DEFAULT=yes

problems=0

# Remove control characters, and limit the length: texts of configuration files are printed.
plain() {
    tr -d '\000-\037\177' | cut -c 1-300
}

# Print a failed check: what is wrong, and what to do.
problem() {
    printf '%s; %s\n' "$1" "$2" | plain >&2
    problems=$((problems + 1))
}

# Print a check that succeeded.
passed() {
    printf '%s\n' "$1" | plain
}

# End with a failed check.
fail() {
    problem "$1" "$2"
    exit 1
}

usage() {
    printf '%s\n' "$1" | plain >&2
    exit 2
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# Print the first of some programs that exists; fail if none does.
first_program() {
    for program in "$@"; do
        if have "$program"; then
            printf '%s\n' "$program"
            return 0
        fi
    done
    return 1
}

# A release becomes part of paths and of arguments.
require_release() {
    case ${1-} in
        '' | *[!A-Za-z0-9._+~:@-]* | [!A-Za-z0-9]*)
            usage "invalid kernel release '${1-}' (expected e.g. 6.1.0-50-amd64, see uname -r)"
            ;;
    esac
    if [ "${#1}" -gt 64 ]; then
        usage "invalid kernel release of ${#1} characters (expected at most 64)"
    fi
}

require_root() {
    if [ "$(id -u)" -ne 0 ]; then
        fail "boot entries can only be set by root" "run as root, e.g. with sudo"
    fi
}

# Print an EFI variable, from UTF-16 to ASCII; nothing if it does not exist.
efi_text() {
    efi_file=$EFI/efivars/$1
    [ -r "$efi_file" ] || return 0
    # The first 4 bytes are attributes. Kernels refuse to seek in the file, as tail does.
    head -c 4100 "$efi_file" 2>/dev/null | tail -c +5 | tr -d '\000'
}

# Return whether systemd-boot started the running system.
by_systemd_boot() {
    case $(efi_text "LoaderInfo-$LOADER_GUID") in
        systemd-boot*) return 0 ;;
        *) return 1 ;;
    esac
}

# Check that EFI variables can be written: root may write them unless they are mounted read-only.
check_variables() {
    if ! grep -Eq " $EFI/efivars [^ ]+ rw" /proc/mounts; then
        problem "EFI variables cannot be written" "run mount -o remount,rw $EFI/efivars"
    fi
}

# Print where a file of a boot entry is mounted; fail if it is not found.
locate_file() {
    for located in "/boot$1" "/boot/efi$1" "/efi$1" "$1" "/boot/${1##*/}"; do
        if [ -f "$located" ]; then
            printf '%s\n' "$located"
            return 0
        fi
    done
    return 1
}

# Print the kernel image of a release below /boot; fail if there is none.
find_image() {
    for image in vmlinuz vmlinux Image kernel bzImage linux; do
        if [ -f "/boot/$image-$1" ]; then
            printf '%s\n' "/boot/$image-$1"
            return 0
        fi
    done
    return 1
}

# Print the initrd of a release below /boot; fail if there is none.
find_initrd() {
    for initrd in "initrd.img-$1" "initramfs-$1.img" "initrd-$1" "initrd-$1.img" "initramfs-$1"; do
        if [ -f "/boot/$initrd" ]; then
            printf '%s\n' "/boot/$initrd"
            return 0
        fi
    done
    return 1
}

# Check an entry's files: release, kernel, initrds (words), kernel parameters.
check_files() {
    if file=$(locate_file "$2"); then
        passed "kernel $file"
        check_signature "$file"
    else
        problem "the boot entry of $1 loads $2, which does not exist" \
            "install this kernel again, or mount /boot"
    fi
    # The words are paths, which may hold * but no spaces.
    set -f
    for path in $3; do
        case $path in \$*) continue ;; esac
        if file=$(locate_file "$path"); then
            passed "initrd $file"
        else
            problem "the boot entry of $1 loads $path, which does not exist" \
                "make it, e.g. update-initramfs -c -k $1, or dracut --kver $1"
        fi
    done
    set +f
    if [ -z "$3" ]; then
        check_without_initrd "$1" "$4"
    fi
}

# Check the parameters of a release that has no initrd: the kernel itself must find its root, and
# does not know UUID=, LABEL= or LVM.
check_without_initrd() {
    case " $2 " in
        *' root=UUID='* | *' root=LABEL='* | *' root=/dev/mapper/'* | *' root=ZFS='*)
            problem "the boot entry of $1 has no initrd, and its root= needs one" \
                "make one, e.g. update-initramfs -c -k $1, then update the boot menu"
            ;;
    esac
}

check_modules() {
    modules=/lib/modules/$1
    if [ ! -d "$modules" ]; then
        problem "$modules does not exist" \
            "install the kernel's modules, e.g. make modules_install"
    elif [ ! -s "$modules/modules.dep" ]; then
        problem "$modules/modules.dep is missing or empty" "run depmod $1"
    else
        passed "modules $modules"
        check_network "$1"
    fi
}

# Return whether a driver exists for a release, as a module or built in.
has_driver() {
    # File names use - and _ alike.
    pattern=$(printf '%s\n' "$2" | sed 's/[_-]/[_-]/g; s/\./\\./g')
    cat "/lib/modules/$1/modules.dep" "/lib/modules/$1/modules.builtin" 2>/dev/null |
        grep -Eq "(^|/)$pattern\\.ko(\\.(gz|xz|zst))?(:|\$)"
}

# Print the drivers of a network card and of its parent devices.
drivers_of() {
    device=$(readlink -f "$1/device") || return 0
    while [ "$device" != /sys/devices ] && [ "$device" != / ] && [ -n "$device" ]; do
        if [ -e "$device/driver/module" ]; then
            link=$(readlink -f "$device/driver/module")
            printf '%s\n' "${link##*/}"
        elif [ "$device" = "$(readlink -f "$1/device")" ] && [ -e "$device/driver" ]; then
            # Built into the running kernel; it is named like its module with few exceptions.
            link=$(readlink -f "$device/driver")
            printf '%s\n' "${link##*/}"
        fi
        device=${device%/*}
    done
}

check_network() {
    for card in /sys/class/net/*; do
        [ -e "$card/device" ] || continue
        # A card without a link carries no connection that could be lost.
        [ "$(cat "$card/operstate" 2>/dev/null)" != down ] || continue
        for driver in $(drivers_of "$card"); do
            if has_driver "$1" "$driver" || resolves "$1" "$card"; then
                passed "driver $driver of ${card##*/}"
            else
                problem "$1 has no driver $driver, which ${card##*/} uses" \
                    "enable this driver in the kernel's configuration"
            fi
        done
    done
}

# Return whether a release has a module for a card, even under another name.
resolves() {
    have modprobe && [ -r "$2/device/modalias" ] &&
        [ -n "$(modprobe -q -S "$1" --resolve-alias "$(cat "$2/device/modalias")" 2>/dev/null)" ]
}

check_room() {
    if [ ! -d /boot ]; then
        problem "/boot does not exist" "mount it"
        return
    fi
    free_kb=$(df -Pk /boot 2>/dev/null | awk 'NR == 2 { print $4 }')
    if [ -z "$free_kb" ]; then
        problem "the free space of /boot is unknown" "see df /boot"
    elif [ "$free_kb" -lt "$ROOM_KB" ]; then
        problem "/boot has $((free_kb / 1024)) MB free, expected at least $((ROOM_KB / 1024)) MB" \
            "remove a kernel that is not needed"
    else
        passed "/boot has $((free_kb / 1024)) MB free"
    fi
}

# Return whether Secure Boot checks kernels.
secure_boot() {
    if have mokutil; then
        state=$(mokutil --sb-state 2>/dev/null)
        case $state in
            *'validation is disabled'*) return 1 ;;
            *'SecureBoot enabled'*) return 0 ;;
            *'SecureBoot disabled'*) return 1 ;;
        esac
    fi
    variable=$EFI/efivars/SecureBoot-$GLOBAL_GUID
    [ -r "$variable" ] && [ "$(od -An -tu1 -j 4 -N 1 "$variable" | tr -d ' ')" = 1 ]
}

# Print an unsigned number of a file: offset, bytes; little endian on machines with EFI.
number_at() {
    od -An "-tu$3" -j "$2" -N "$3" "$1" 2>/dev/null | tr -d ' \n'
}

# Return whether an EFI program (PE32+) has a certificate table.
is_signed() {
    header=$(number_at "$1" 60 4)
    [ -n "$header" ] || return 1
    [ "$(number_at "$1" "$header" 4)" = 17744 ] || return 1
    # The optional header follows 24 bytes; entry 4 of its data directory is at byte 144 of PE32+.
    size=$(number_at "$1" $((header + 24 + 144 + 4)) 4)
    [ "${size:-0}" -gt 0 ]
}

check_signature() {
    secure_boot || return 0
    if is_signed "$1"; then
        passed "$1 has a signature (whether the firmware trusts its key is not checked)"
    else
        problem "Secure Boot is on, and $1 has no signature" \
            "sign it, e.g. with sbsign and mokutil --import, or disable Secure Boot"
    fi
}

check_armed() {
    already=$(hook_armed) || return 0
    if [ -n "$already" ]; then
        problem "a one-shot boot entry is already set: $already" \
            "boot it, or cancel it with the hook's disarm"
    fi
}

# The machine must come back by itself: its default entry boots an installed kernel.
check_default() {
    release=$(hook_default)
    if [ -z "$release" ]; then
        problem "the kernel that boots by default is unknown" \
            "set a default boot entry for an installed kernel"
    elif [ ! -d "/lib/modules/$release" ]; then
        problem "the default boot entry boots $release, which has no /lib/modules/$release" \
            "set a default boot entry for an installed kernel"
    else
        passed "default $release"
    fi
}

check() {
    require_root
    hook_applies || { problems=1; return; }
    check_room
    hook_check "$1"
    check_modules "$1"
    check_armed
    if [ "$KNOWS_DEFAULT" = yes ]; then
        check_default
    fi
}

reboot_machine() {
    if have systemctl && [ -d /run/systemd/system ]; then
        systemctl reboot
    else
        reboot
    fi
}

main() {
    case ${1-} in
        check)
            require_release "${2-}"
            check "$2"
            [ "$problems" -eq 0 ]
            ;;
        arm)
            require_release "${2-}"
            require_root
            hook_applies || exit 1
            hook_arm "$2" || exit 1
            # The entry must survive a power cut right after this.
            sync
            ;;
        applies) hook_applies ;;
        armed) hook_armed ;;
        disarm)
            require_root
            hook_disarm && sync
            ;;
        default) hook_default ;;
        reboot)
            require_root
            hook_reboot
            ;;
        *)
            usage "invalid verb '${1-}' (expected check, arm, armed, disarm, default or reboot)"
            ;;
    esac
}
