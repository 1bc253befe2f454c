// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";

/* Copies the commands of an item. */
const items = (() => {
  /* How long a button shows the result, in ms. */
  const SAID = 2000;

  /* If the browser does not allow copying, the commands are selected, for the reader to copy. */
  async function copy(button, block) {
    const commands = [...block.children].map((one) => one.textContent);
    if (await page.copy(commands.join("\n"), "Commands copied.")) {
      say(button, "Copied");
    } else {
      getSelection().selectAllChildren(block);
      say(button, "Selected");
    }
  }

  function say(button, words) {
    button.textContent = words;
    setTimeout(() => { button.textContent = "Copy"; }, SAID);
  }

  function attach(main) {
    for (const button of main.querySelectorAll(".commands button.copy")) {
      button.hidden = false;
      button.addEventListener("click", () => copy(button, button.parentElement.querySelector("pre")));
    }
  }

  return { attach };
})();

page.attach(items.attach);
