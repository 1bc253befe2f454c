// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The controls of the page's head: colours, menus and printing.

// Colours: those of the system until the reader chooses.
(() => {
  const { root } = page;
  const button = document.getElementById("theme");
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : preferred.matches);
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colours`);
  };
  const choose = (theme) => {
    if (["light", "dark"].includes(theme)) {
      root.dataset.theme = theme;
    } else {
      delete root.dataset.theme;
    }
    show();
  };
  const switchOver = () => {
    const theme = isDark() ? "light" : "dark";
    page.state.set("theme", theme);
    choose(theme);
  };
  button.addEventListener("click", switchOver);
  preferred.addEventListener("change", show);
  page.press("t", "light or dark colours", switchOver);
  page.state.on("theme", choose);
  choose(page.state.get("theme"));

  // Paper is white and shows parts unfolded. The details of changed rows are printed; those of other
  // rows, and reference tables, only if the reader has opened them, because all of them would be a
  // hundred pages or more.
  let onScreen = "";
  let folded = [];
  let closed = [];
  const openRows = () => {
    page.later.fillAll(":is(.fold, .unchanged)");
    closed.push(...document.querySelectorAll("main tr.telling[hidden]"));
    closed.forEach((row) => { row.hidden = false; });
  };
  const print = () => window.print();
  document.getElementById("print").addEventListener("click", print);
  page.press("p", "print the whole page", print);
  addEventListener("beforeprint", () => {
    onScreen = root.dataset.theme ?? "";
    openRows();
    folded = [...document.querySelectorAll(page.openedOnPaper)];
    folded.forEach((one) => { one.open = true; });
    choose("light");
  });
  addEventListener("afterprint", () => {
    folded.forEach((one) => { one.open = false; });
    closed.forEach((row) => { row.hidden = true; });
    closed = [];
    choose(onScreen);
  });
})();

// The commands that make another side base.
document.querySelectorAll(".other-bases button").forEach((button) => {
  const command = button.previousElementSibling.textContent;
  button.addEventListener("click", () => page.copy(command, "Command copied."));
});

// A menu closes on a click outside of it.
(() => {
  const attach = (menu) => {
    const close = () => { menu.open = false; };
    document.addEventListener("click", (event) => {
      if (!menu.contains(event.target) || event.target.closest("button")) {
        close();
      }
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && menu.open) {
        close();
        menu.querySelector("summary").focus();
      }
    });
  };
  document.querySelectorAll(".menu").forEach(attach);
  document.querySelectorAll(".tools > [hidden], .tools button[hidden]").forEach((one) => { one.hidden = false; });
})();
