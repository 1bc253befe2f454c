// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// What the scripts of several blocks make: elements, buttons, and files to save.
(() => {
  // make("td", { class: "number" }, "1.5"): in it are texts, which are never markup, and elements.
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

  // So long a browser has to begin to read what it saves, in milliseconds.
  const READING_TIME = 60_000;

  page.save = (text, name, type) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    page.make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), READING_TIME);
  };
})();
