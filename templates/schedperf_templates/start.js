"use strict";
page.start();
performance.mark("ready");
