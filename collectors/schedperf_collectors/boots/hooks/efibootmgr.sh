# SPDX-License-Identifier: GPL-2.0-or-later
# The firmware boots kernels itself (EFI stub, unified kernel image); BootNext selects the entry
# of the next boot.
# shellcheck shell=sh

hook_applies() {
    if [ ! -d "$EFI" ]; then
        problem "this machine was not started by EFI" "use another --boot hook, e.g. grub-reboot"
        return 1
    fi
    if ! have efibootmgr; then
        problem "efibootmgr is not installed" "install it, e.g. apt install efibootmgr"
        return 1
    fi
}

# Print the number, 4 hexadecimal digits, of the first active entry whose label or loader has
# exactly this release.
entry_of() {
    efibootmgr -v 2>/dev/null | RELEASE=$1 awk '
        /^Boot[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f]\*/ {
            rest = substr($0, 10)
            before = ""
            while ((at = index(rest, ENVIRON["RELEASE"])) > 0) {
                if (at > 1) before = substr(rest, at - 1, 1)
                after = substr(rest, at + length(ENVIRON["RELEASE"]))
                # 6.1.0-50 is neither 16.1.0-50, 6.1.0-501 nor 6.1.0-50-rt.
                if (before !~ /[0-9.]/ && (after !~ /^[A-Za-z0-9._+~:@-]/ || after ~ /^\.[Ee][Ff][Ii]/)) {
                    print substr($0, 5, 4)
                    exit
                }
                before = substr(rest, at, 1)
                rest = substr(rest, at + 1)
            }
        }
    '
}

# Print the value of a line of efibootmgr, e.g. BootOrder.
line_of() {
    efibootmgr 2>/dev/null | sed -n "s/^$1: *//p" | head -n 1
}

hook_check() {
    number=$(entry_of "$1")
    if [ -z "$number" ]; then
        problem "the firmware has no boot entry of $1 (see efibootmgr -v)" \
            "add one, e.g. efibootmgr -c -L linux-$1 -l '\\EFI\\Linux\\linux-$1.efi'"
        return
    fi
    passed "boot entry Boot$number"
    check_variables
    for file in "/boot/efi/EFI/Linux/linux-$1.efi" "/efi/EFI/Linux/linux-$1.efi" \
        "/boot/EFI/Linux/linux-$1.efi"; do
        if [ -f "$file" ]; then
            check_signature "$file"
        fi
    done
}

hook_arm() {
    number=$(entry_of "$1")
    if [ -z "$number" ]; then
        problem "the firmware has no boot entry of $1" "add one with efibootmgr -c"
        return 1
    fi
    efibootmgr -q -n "$number" || return 1
    if [ "$(line_of BootNext)" != "$number" ]; then
        problem "the firmware did not keep BootNext" "see the firmware's set-up"
        return 1
    fi
}

hook_armed() {
    hook_applies || return 1
    line_of BootNext
}

hook_disarm() {
    hook_applies || return 1
    if [ -n "$(line_of BootNext)" ]; then
        efibootmgr -q -N
    fi
}

# The first entry of the boot order boots by default; only installed kernels are recognized.
hook_default() {
    hook_applies || return 1
    first=$(line_of BootOrder)
    first=${first%%,*}
    [ -n "$first" ] || return 0
    for modules in /lib/modules/*; do
        release=${modules##*/}
        if [ "$(entry_of "$release")" = "$first" ]; then
            printf '%s\n' "$release"
            return 0
        fi
    done
}

hook_reboot() {
    reboot_machine
}
