// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The keys of the page, in one place, and the dialog that lists them.
(() => {
  // Time to wait for a second letter, in milliseconds.
  const LONGEST_PAUSE = 1500;

  const keys = [];
  const dialog = document.getElementById("keys");
  let before = "";
  let pressedAt = 0;

  // A key that does something: press("t", "light or dark colours", (event) => …). Two letters, "gb",
  // are pressed one after the other. An action that returns false leaves the key to the next one, or to
  // the browser.
  page.press = (letters, words, act) => keys.push({ letters, words, act });

  const isWriting = (target) => target.closest("input, select, textarea, [contenteditable]") !== null;
  // Enter and the space bar activate the element with the focus.
  const isPressing = (event) => ["Enter", " "].includes(event.key) && event.target.closest("a, button, summary") !== null;

  const act = (letters, event) => {
    const done = keys.some((key) => key.letters === letters && key.act(event) !== false);
    if (done) {
      event.preventDefault();
    }
    return done;
  };

  const isFirst = (letter) => keys.some(({ letters }) => letters.length === 2 && letters[0] === letter);

  addEventListener("keydown", (event) => {
    const isOurs = !event.defaultPrevented && !event.ctrlKey && !event.altKey && !event.metaKey;
    if (!isOurs || dialog.open || isWriting(event.target) || isPressing(event)) {
      return;
    }
    const first = event.timeStamp - pressedAt < LONGEST_PAUSE ? before : "";
    before = "";
    if ((first && act(first + event.key, event)) || act(event.key, event)) {
      return;
    }
    if (isFirst(event.key)) {
      before = event.key;
      pressedAt = event.timeStamp;
    }
  });

  const nameKey = (letters) => (letters.length === 2 ? [...letters] : [letters]);

  // A key with the same text in several scripts is listed once.
  const listKeys = () => {
    const said = new Map(keys.map(({ letters, words }) => [`${letters} ${words}`, { letters, words }]));
    const rows = [...said.values()].map(({ letters, words }) => {
      const row = document.createElement("div");
      const term = row.appendChild(document.createElement("dt"));
      for (const letter of nameKey(letters)) {
        term.appendChild(document.createElement("kbd")).textContent = letter;
      }
      row.appendChild(document.createElement("dd")).textContent = words;
      return row;
    });
    dialog.querySelector("dl").replaceChildren(...rows);
  };

  const help = () => {
    listKeys();
    dialog.showModal();
  };
  document.getElementById("help").addEventListener("click", help);
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  // A click outside of the dialog is a click on its backdrop.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) {
      dialog.close();
    }
  });
  page.press("?", "list of keys", help);

  document.querySelectorAll("nav a[data-keys]").forEach(({ dataset, textContent, hash }) => {
    page.press(dataset.keys, `go to ${textContent}`, () => page.go(hash.slice(1)));
  });
})();
