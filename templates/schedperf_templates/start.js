// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
page.start();
