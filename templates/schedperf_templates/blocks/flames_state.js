// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The reader's choices in a flame graph, as a short text for the address: fields separated by *,
// each a letter and its value; every p is one frame of the path that is zoomed to.
const FlameState = (() => {
  const TEXTS = { e: "event", v: "view", m: "measure", n: "part", q: "find" };
  const FLAGS = { k: "kernel", b: "busy", u: "up", c: "all", o: "only", z: "fit" };

  const pack = (text) => encodeURIComponent(text).replaceAll("*", "%2A");

  // null if all choices are the defaults.
  const write = (wish, usual) => {
    const texts = Object.entries(TEXTS).filter(([, name]) => wish[name] !== usual[name]);
    const flags = Object.entries(FLAGS).filter(([, name]) => wish[name]);
    const fields = [
      ...texts.map(([letter, name]) => letter + pack(wish[name])),
      ...flags.map(([letter]) => letter),
      ...wish.path.map((name) => `p${pack(name)}`),
    ];
    return fields.length ? fields.join("*") : null;
  };

  // An invalid choice in an address falls back to the default.
  const read = (text, usual, choices) => {
    const wish = { ...usual, path: [] };
    for (const field of text ? text.split("*") : []) {
      const letter = field[0];
      const value = page.unescape(field.slice(1));
      if (letter === "p") {
        wish.path.push(value);
      } else if (letter in FLAGS) {
        wish[FLAGS[letter]] = true;
      } else if (letter === "q" || choices[TEXTS[letter]]?.includes(value)) {
        wish[TEXTS[letter]] = value;
      }
    }
    return wish;
  };

  return { read, write };
})();
