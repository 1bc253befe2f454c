# SPDX-License-Identifier: GPL-2.0-or-later
# GRUB 2: the variable next_entry of its environment block selects the entry of the next boot.
# GRUB clears it when it boots, which needs a file system and a disk that GRUB can write to.
# shellcheck shell=sh

ENV_BYTES=1024

# Set GRUB_DIR and EDITENV; fail with a problem if GRUB does not boot this machine.
hook_applies() {
    if by_systemd_boot; then
        problem "this machine was started by systemd-boot, not by GRUB" "use --boot bootctl"
        return 1
    fi
    for GRUB_DIR in /boot/grub /boot/grub2; do
        [ -f "$GRUB_DIR/grub.cfg" ] && break
    done
    if [ ! -f "$GRUB_DIR/grub.cfg" ]; then
        problem "GRUB has no menu (expected /boot/grub/grub.cfg or /boot/grub2/grub.cfg)" \
            "install GRUB and run update-grub, or use another --boot hook"
        return 1
    fi
    if ! EDITENV=$(first_program grub-editenv grub2-editenv); then
        problem "grub-editenv is not installed" "install it, e.g. apt install grub-common"
        return 1
    fi
    ENV_FILE=$GRUB_DIR/grubenv
}

has_bls() {
    grep -Eq '^[[:space:]]*blscfg([[:space:]]|$)' "$GRUB_DIR/grub.cfg"
}

# Print a variable of the environment block; nothing if it is not set, or empty as GRUB leaves
# next_entry when it boots.
env_value() {
    [ -f "$ENV_FILE" ] || return 0
    "$EDITENV" "$ENV_FILE" list 2>/dev/null | sed -n "s/^$1=\\(.\\)/\\1/p" | head -n 1
}

# Read the menu. With MODE=entry, print four lines for the first entry of RELEASE: name for
# next_entry, kernel, initrds, kernel parameters. With MODE=default, print the release of the
# entry that boots by default; nothing if that is uncertain.
read_menu() {
    MODE=$1 RELEASE=${2-} SAVED=$(env_value saved_entry) awk '
    # Split a line as GRUB does; words that hold a variable are marked. Return their number; -1 if
    # a quote is still open at the end.
    function split_words(line,    i, c, quote, word, inside, open_word) {
        word = ""; quote = ""; open_word = 0; count = 0; inside = 0
        for (i = 1; i <= length(line); i++) {
            c = substr(line, i, 1)
            if (quote == "\047") {
                if (c == "\047") quote = ""; else word = word c
            } else if (c == "\\" && i < length(line)) {
                word = word substr(line, ++i, 1); open_word = 1
            } else if (quote == "\"") {
                if (c == "\"") quote = ""; else { word = word c; if (c == "$") inside = 1 }
            } else if (c == "\047" || c == "\"") {
                quote = c; open_word = 1
            } else if (c == " " || c == "\t" || c == "\r") {
                if (open_word) { words[++count] = word; variable[count] = inside }
                word = ""; open_word = 0; inside = 0
            } else if (c == "#" && !open_word) {
                break
            } else {
                word = word c; open_word = 1
                if (c == "$") inside = 1
            }
        }
        if (open_word) { words[++count] = word; variable[count] = inside }
        return quote == "" ? count : -1
    }
    function base(path) { sub(/.*\//, "", path); return path }
    # Return the release in the name of a kernel image; "" if it has none.
    function release_of(path,    name) {
        name = base(path)
        return sub(/^(vmlinuz|vmlinux|Image|kernel|bzImage|linux)-/, "", name) ? name : ""
    }
    # GRUB separates the levels of the menu by >, and doubles a > inside a name.
    function escaped(name) { gsub(/>/, ">>", name); return name }
    function add_item(type,    i, id, title, up, at, named, own) {
        title = ""; id = ""; named = 0
        for (i = 2; i < count; i++) {
            if (words[i] == "$menuentry_id_option" || words[i] == "--id") {
                i++; id = variable[i] ? "" : words[i]
            } else if (words[i] ~ /^--id=/) {
                id = variable[i] ? "" : substr(words[i], 6)
            } else if (words[i] ~ /^--(class|users|hotkey|source)$/) {
                i++
            } else if (words[i] !~ /^--/ && !named) {
                named = 1; title = variable[i] ? "" : words[i]
            }
        }
        # Items of one level are counted from 0, those in an if only when it is true.
        up = parent[depth]
        at = ++items
        number[at] = (up in children) ? children[up] : 0
        children[up] = number[at] + 1
        level[at] = up
        if (conditional > 0) unsure[up] = 1
        counted[at] = !(up in unsure)
        ids[at] = id; titles[at] = title; types[at] = type
        # GRUB takes a name that begins with a digit for a number.
        own = id != "" ? id : title
        if (!named || own ~ /^[0-9]/ || own ~ /[[:cntrl:]]/) own = ""
        whole[at] = own == "" || (up && whole[up] == "") ? "" : (up ? whole[up] ">" : "") escaped(own)
        return at
    }
    # Return the item of a level with a name or number; 0 if there is none, or it is uncertain.
    function find_item(up, name,    i) {
        if (broken) return 0
        for (i = 1; i <= items; i++) {
            if (level[i] != up) continue
            if (name ~ /^[0-9]+$/) {
                if (number[i] == name + 0) return counted[i] ? i : 0
            } else if (ids[i] == name || titles[i] == name) {
                return i
            }
        }
        return 0
    }
    function print_default(    name, at, up, level_name) {
        name = default_name
        if (name ~ /^\$\{?saved_entry\}?$/) name = ENVIRON["SAVED"]
        if (name == "") name = "0"
        if (name ~ /\$/) return
        gsub(/>>/, "\001", name)
        up = 0
        while (1) {
            at = index(name, ">")
            level_name = at ? substr(name, 1, at - 1) : name
            gsub(/\001/, ">", level_name)
            up = find_item(up, level_name)
            if (!up) return
            if (!at) break
            name = substr(name, at + 1)
        }
        if (types[up] == "menuentry" && kernel[up] != "") print release_of(kernel[up])
    }
    function is_rescue(at) {
        return arguments[at] ~ /(^| )(single|1|S|emergency|rescue|recovery)( |$)/ ||
            arguments[at] ~ /systemd\.unit=(rescue|emergency)/ || ids[at] ~ /^osprober-/
    }
    function print_entry(    i) {
        for (i = 1; i <= items; i++) {
            if (types[i] == "menuentry" && kernel[i] != "" && whole[i] != "" &&
                release_of(kernel[i]) == ENVIRON["RELEASE"] && !is_rescue(i)) {
                # Of several entries with one name, GRUB boots the first.
                if (is_first(i)) {
                    printf "%s\n%s\n%s\n%s\n", whole[i], kernel[i], initrds[i], arguments[i]
                    return
                }
            }
        }
    }
    function is_first(at,    i) {
        for (i = 1; i < at; i++) if (level[i] == level[at] && shares_name(i, at)) return 0
        return 1
    }
    function shares_name(i, at,    own) {
        own = ids[at] != "" ? ids[at] : titles[at]
        return ids[i] == own || titles[i] == own
    }
    BEGIN { depth = 0; parent[0] = 0; default_name = ""; current = 0 }
    length($0) > 65536 { if ($1 == "menuentry" || $1 == "submenu") broken = 1; next }
    $1 == "if" && $NF !~ /^fi;?$/ { conditional++ }
    $1 == "fi" || $1 == "fi;" { conditional-- }
    $1 == "}" {
        if (depth > 0) depth--
        current = 0
        next
    }
    $1 == "menuentry" || $1 == "submenu" {
        # A name of several lines is not read, so the numbers of later items are uncertain.
        if (split_words($0) < 2 || words[count] != "{") { broken = 1; next }
        at = add_item($1)
        depth++
        parent[depth] = $1 == "submenu" ? at : parent[depth - 1]
        current = $1 == "menuentry" ? at : 0
        next
    }
    /\{[[:space:]]*$/ { depth++; parent[depth] = parent[depth - 1]; next }
    current && ($1 == "linux" || $1 == "linux16" || $1 == "linuxefi") {
        if (split_words($0) < 2) next
        path = words[2]
        sub(/^\([^)]*\)/, "", path)
        kernel[current] = path
        arguments[current] = ""
        for (i = 3; i <= count; i++) arguments[current] = arguments[current] " " words[i]
        next
    }
    current && ($1 == "initrd" || $1 == "initrd16" || $1 == "initrdefi") {
        if (split_words($0) < 2) next
        for (i = 2; i <= count; i++) {
            path = words[i]
            sub(/^\([^)]*\)/, "", path)
            initrds[current] = initrds[current] (initrds[current] == "" ? "" : " ") path
        }
        next
    }
    depth == 0 && !items && $1 == "set" && $2 ~ /^default=/ {
        if (split_words($0) < 2) next
        name = substr(words[2], 9)
        if (name !~ /next_entry/) default_name = name
    }
    END { if (ENVIRON["MODE"] == "entry") print_entry(); else print_default() }
    ' "$GRUB_DIR/grub.cfg"
}

# Print the four lines of read_menu for an entry of the Boot Loader Specification (Fedora).
bls_entry() {
    for file in /boot/loader/entries/*.conf; do
        [ -f "$file" ] || continue
        [ "$(bls_release "$file")" = "$1" ] || continue
        id=${file##*/}
        printf '%s\n' "${id%.conf}"
        for key in linux initrd options; do
            awk -v key="$key" '
                $1 == key { sub(/^[[:space:]]*[^[:space:]]+[[:space:]]+/, ""); text = text " " $0 }
                END { sub(/^ /, "", text); print text }
            ' "$file"
        done
        return 0
    done
}

# Print the release of an entry of the Boot Loader Specification, by the name of its kernel.
bls_release() {
    awk '
        $1 == "linux" { name = $2 }
        $1 == "version" { version = $2 }
        END {
            sub(/.*\//, "", name)
            if (sub(/^(vmlinuz|vmlinux|Image|kernel|bzImage|linux)-/, "", name)) print name
            else print version
        }
    ' "$1"
}

find_entry() {
    if has_bls; then
        found=$(bls_entry "$1")
        if [ -n "$found" ]; then
            printf '%s\n' "$found"
            return
        fi
    fi
    read_menu entry "$1"
}

hook_check() {
    check_menu "$1"
    check_environment
}

check_menu() {
    entry=$(find_entry "$1")
    if [ -z "$entry" ]; then
        problem "$GRUB_DIR/grub.cfg has no boot entry of $1" \
            "install this kernel and run update-grub (grub2-mkconfig -o $GRUB_DIR/grub.cfg)"
        return
    fi
    passed "boot entry $(printf '%s\n' "$entry" | sed -n 1p)"
    check_files "$1" "$(printf '%s\n' "$entry" | sed -n 2p)" \
        "$(printf '%s\n' "$entry" | sed -n 3p)" "$(printf '%s\n' "$entry" | sed -n 4p)"
    if ! grep -q next_entry "$GRUB_DIR/grub.cfg"; then
        problem "$GRUB_DIR/grub.cfg does not read next_entry, so it ignores one-shot entries" \
            "generate it with update-grub (grub2-mkconfig)"
    fi
}

check_environment() {
    if [ -L "$ENV_FILE" ]; then
        problem "$ENV_FILE is a symbolic link, which GRUB cannot write" \
            "replace it: rm $ENV_FILE; $EDITENV $ENV_FILE create"
    elif [ ! -f "$ENV_FILE" ]; then
        problem "$ENV_FILE does not exist" "run $EDITENV $ENV_FILE create"
    elif [ "$(wc -c <"$ENV_FILE" | tr -d ' ')" -ne "$ENV_BYTES" ] ||
        ! "$EDITENV" "$ENV_FILE" list >/dev/null 2>&1; then
        problem "$ENV_FILE is not an environment block of $ENV_BYTES bytes" \
            "replace it: rm $ENV_FILE; $EDITENV $ENV_FILE create"
    elif ! can_open_for_writing "$ENV_FILE"; then
        problem "$ENV_FILE cannot be written" \
            "mount its file system writable, e.g. mount -o remount,rw /boot"
    else
        check_storage
    fi
}

# Root may write all files, unless the file system is read-only or the file is immutable.
can_open_for_writing() {
    (: >>"$1") 2>/dev/null
}

# GRUB writes single sectors, without the code of a file system, of LVM or of RAID.
check_storage() {
    if ! probe=$(first_program grub-probe grub2-probe); then
        problem "grub-probe is not installed" "install it, e.g. apt install grub-common"
        return
    fi
    remedy="put /boot on a plain partition with ext4, or use --boot kexec or a command hook"
    if ! layers=$("$probe" --target=abstraction "$GRUB_DIR" 2>/dev/null) ||
        ! kind=$("$probe" --target=fs "$GRUB_DIR" 2>/dev/null); then
        problem "grub-probe cannot tell what $GRUB_DIR is stored on" "$remedy"
        return
    fi
    layers=$(printf '%s' "$layers" | tr '\n' ' ')
    consequence="GRUB cannot clear a one-shot entry there, and would boot it every time"
    case " $layers " in
        *' lvm '* | *' diskfilter '* | *' mdraid'* | *' raid'* | *' ldm '*)
            problem "$GRUB_DIR is on $layers: $consequence" "$remedy"
            return
            ;;
    esac
    case $kind in
        btrfs)
            # GRUB 2.14 and SUSE keep the block in the header of the file system.
            if [ -z "$(env_value env_block)" ] || ! grep -q env_block "$GRUB_DIR/grub.cfg"; then
                problem "$GRUB_DIR is on $kind, without env_block: $consequence" "$remedy"
                return
            fi
            ;;
        zfs | cpiofs | newc | odc | romfs | squash4 | tarfs | iso9660 | udf)
            problem "$GRUB_DIR is on $kind: $consequence" "$remedy"
            return
            ;;
    esac
    passed "GRUB can write $ENV_FILE ($kind)"
}

hook_arm() {
    name=$(find_entry "$1" | sed -n 1p)
    if [ -z "$name" ]; then
        problem "$GRUB_DIR/grub.cfg has no boot entry of $1" "install this kernel and run update-grub"
        return 1
    fi
    "$EDITENV" "$ENV_FILE" set "next_entry=$name" || return 1
    if [ "$(env_value next_entry)" != "$name" ]; then
        problem "$ENV_FILE did not keep next_entry" "see the checks of schedperf doctor --boot"
        return 1
    fi
}

hook_armed() {
    hook_applies || return 1
    env_value next_entry
}

hook_disarm() {
    hook_applies || return 1
    if [ -n "$(env_value next_entry)" ]; then
        "$EDITENV" "$ENV_FILE" unset next_entry
    fi
}

hook_default() {
    hook_applies || return 1
    if has_bls; then
        bls_default
    else
        read_menu default
    fi
}

# The saved entry of a BLS system is the name of a file; other forms depend on GRUB's sorting.
bls_default() {
    saved=$(env_value saved_entry)
    case $saved in
        '' | */*) return 0 ;;
    esac
    if [ -f "/boot/loader/entries/$saved.conf" ]; then
        bls_release "/boot/loader/entries/$saved.conf"
    fi
}

hook_reboot() {
    reboot_machine
}
