// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Helpers of several blocks: make elements and buttons, and save files.
(() => {
  // make("td", { class: "number" }, "1.5"): children are elements, or texts, which never become markup.
  page.make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    element.append(...children);
    return element;
  };

  page.makeButton = (words, act, attributes = {}) => {
    const button = page.make("button", { type: "button", ...attributes }, words);
    button.addEventListener("click", act);
    return button;
  };

  // Time for the browser to start reading the file, in milliseconds.
  const READING_TIME = 60_000;

  page.save = (text, name, type) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    page.make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), READING_TIME);
  };
})();
