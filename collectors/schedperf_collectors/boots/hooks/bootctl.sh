# SPDX-License-Identifier: GPL-2.0-or-later
# systemd-boot: the EFI variable LoaderEntryOneShot selects the entry of the next boot.
# shellcheck shell=sh

hook_applies() {
    if [ ! -d "$EFI" ]; then
        problem "this machine was not started by EFI, which systemd-boot needs" \
            "use another --boot hook, e.g. grub-reboot"
        return 1
    fi
    if ! by_systemd_boot; then
        problem "this machine was not started by systemd-boot" \
            "use another --boot hook, e.g. grub-reboot"
        return 1
    fi
    if ! have bootctl; then
        problem "bootctl is not installed" "install it, e.g. apt install systemd-boot"
        return 1
    fi
}

# Read the list of entries. With MODE=entry, print four lines for the entry of RELEASE: id,
# kernel, initrds, kernel parameters. With MODE=default, print the release of the entry marked as
# default. With MODE=all, print the release and the id of each entry.
read_entries() {
    bootctl list --no-pager 2>/dev/null |
        MODE=$1 RELEASE=${2-} awk '
        function flush() {
            if (id != "") {
                if (version == "") version = release_of(linux)
                if (ENVIRON["MODE"] == "entry") {
                    if (version == ENVIRON["RELEASE"] && !done) {
                        printf "%s\n%s\n%s\n%s\n", id, linux, initrds, options; done = 1
                    }
                } else if (ENVIRON["MODE"] == "default") {
                    if (is_default && version != "" && !done) { print version; done = 1 }
                } else {
                    printf "%s %s\n", version, id
                }
            }
            id = version = linux = initrds = options = ""; is_default = 0
        }
        function release_of(path,    name) {
            name = path
            sub(/.*\//, "", name)
            return sub(/^(vmlinuz|vmlinux|Image|kernel|bzImage|linux)-/, "", name) ? name : ""
        }
        $1 == "type:" { flush() }
        $1 == "title:" { is_default = /\(default\)/ }
        $1 == "id:" { id = $2 }
        $1 == "version:" { version = $2 }
        # An error may follow a path, e.g. (No such file or directory).
        $1 == "linux:" { linux = $2 }
        $1 == "options:" { options = $0; sub(/^ *options: */, "", options) }
        $1 == "initrd:" { initrds = initrds (initrds == "" ? "" : " ") $2; more = 1; next }
        # Further initrds are on lines of their own, without a key.
        more && /^ *\// { initrds = initrds " " $1; next }
        { more = 0 }
        END { flush() }
        '
}

hook_check() {
    entry=$(read_entries entry "$1")
    if [ -z "$entry" ]; then
        problem "systemd-boot has no entry of $1 (see bootctl list)" \
            "add one, e.g. kernel-install add $1 /boot/vmlinuz-$1"
        return
    fi
    passed "boot entry $(printf '%s\n' "$entry" | sed -n 1p)"
    image=$(printf '%s\n' "$entry" | sed -n 2p)
    if [ -n "$image" ]; then
        # bootctl prints paths below the partition, or with its mount point.
        check_files "$1" "$(below "$image")" "$(below "$(printf '%s\n' "$entry" | sed -n 3p)")" \
            "$(printf '%s\n' "$entry" | sed -n 4p)"
    fi
    check_variables
}

# Print paths (words) without the mount points of the EFI and the boot partition.
below() {
    mounts="$(bootctl --print-esp-path 2>/dev/null) $(bootctl --print-boot-path 2>/dev/null)"
    shortened=
    set -f
    for word in $1; do
        for mount in $mounts; do
            case $word in
                "$mount"/*)
                    word=/${word#"$mount"}
                    ;;
            esac
        done
        shortened="$shortened $(printf '%s' "$word" | tr -s /)"
    done
    set +f
    printf '%s\n' "${shortened# }"
}

hook_arm() {
    id=$(read_entries entry "$1" | sed -n 1p)
    if [ -z "$id" ]; then
        problem "systemd-boot has no entry of $1 (see bootctl list)" \
            "add one, e.g. kernel-install add $1 /boot/vmlinuz-$1"
        return 1
    fi
    bootctl set-oneshot "$id" || return 1
    if [ "$(hook_armed)" != "$id" ]; then
        problem "the firmware did not keep LoaderEntryOneShot" "see the firmware's set-up"
        return 1
    fi
}

hook_armed() {
    hook_applies || return 1
    efi_text "LoaderEntryOneShot-$LOADER_GUID"
}

hook_disarm() {
    hook_applies || return 1
    if [ -n "$(efi_text "LoaderEntryOneShot-$LOADER_GUID")" ]; then
        bootctl set-oneshot ''
    fi
}

# While a one-shot entry is set, bootctl marks that one as the default.
hook_default() {
    hook_applies || return 1
    pattern=$(efi_text "LoaderEntryDefault-$LOADER_GUID")
    if [ -z "$pattern" ]; then
        pattern=$(awk '$1 == "default" { name = $2 } END { print name }' \
            "$(bootctl --print-esp-path 2>/dev/null)/loader/loader.conf" 2>/dev/null)
    fi
    if [ "$pattern" = @saved ]; then
        pattern=$(efi_text "LoaderEntryLastBooted-$LOADER_GUID")
    fi
    if [ -z "$pattern" ]; then
        if [ -z "$(efi_text "LoaderEntryOneShot-$LOADER_GUID")" ]; then
            read_entries default
        else
            read_entries all | first_match '*'
        fi
    else
        read_entries all | first_match "$pattern"
    fi
}

# Print the release of the first entry whose id matches a glob.
first_match() {
    while read -r version id; do
        # shellcheck disable=SC2254 # a glob
        case $id in
            $1 | ${1%.conf}.conf)
                printf '%s\n' "$version"
                return 0
                ;;
        esac
    done
}

hook_reboot() {
    reboot_machine
}
