// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Saves the files that the page carries.
page.attach((main) => {
  const save = async (element) => {
    const { name, media } = element.dataset;
    const text = await page.unpack(element.querySelector("script").textContent);
    page.save(text, name, media);
    page.say(`${name} saved`);
  };
  main.querySelectorAll(".download").forEach((element) => {
    const button = element.querySelector("button");
    button?.addEventListener("click", () => save(element));
    button?.removeAttribute("hidden");
  });
});
