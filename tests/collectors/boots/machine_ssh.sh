#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# ssh to the machine of machine.sh, which is this one.
while [ "$1" != -- ]; do shift; done
exec sh -c "$3"
