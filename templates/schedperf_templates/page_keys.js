// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The keys of the page, in one place, and the dialog that lists them.
(() => {
  // So long a first letter waits for the second one, in milliseconds.
  const LONGEST_PAUSE = 1500;

  const keys = [];
  const dialog = document.getElementById("keys");
  let before = "";
  let pressedAt = 0;

  // A key that does something: press("t", "light or dark colours", (event) => …). Two letters, "gb",
  // come one after the other. Whoever returns false leaves the key to the next one, or the browser.
  page.press = (letters, words, act) => keys.push({ letters, words, act });

  const isWriting = (target) => target.closest("input, select, textarea, [contenteditable]") !== null;
  // Enter and the space bar press what has the focus.
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

  // Scripts may give one key a meaning each; it is listed once.
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
  // A click beside the dialog is a click on its backdrop.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) {
      dialog.close();
    }
  });
  page.press("?", "these keys", help);

  document.querySelectorAll("nav a[data-keys]").forEach(({ dataset, textContent, hash }) => {
    page.press(dataset.keys, `go to ${textContent}`, () => page.go(hash.slice(1)));
  });
})();
