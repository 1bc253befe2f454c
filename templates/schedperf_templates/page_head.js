"use strict";
// The controls of the page's head: colours, who is base, the menu and paper.

// Colours: the system's until somebody chooses.
(() => {
  const { root } = page;
  const button = document.getElementById("theme");
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : preferred.matches);
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colours`);
    dispatchEvent(new Event("colours"));
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

  // Paper is white, and nothing unfolds on it. What a row that changed opens to is on it; of other
  // rows, and of tables to look something up in, only what the reader has opened: all of them would
  // be some hundred pages.
  let onScreen = "";
  let folded = [];
  let closed = [];
  // Rows are opened before charts are drawn for paper, so that those in them are drawn too.
  const openRows = () => {
    closed.push(...document.querySelectorAll("main tr.telling[hidden]"));
    closed.forEach((row) => { row.hidden = false; });
  };
  const print = () => {
    page.say("Drawing the charts for paper …");
    page.print();
  };
  page.prepare(openRows);
  document.getElementById("print").addEventListener("click", print);
  page.press("p", "print all of it", print);
  addEventListener("beforeprint", () => {
    onScreen = root.dataset.theme ?? "";
    page.isPrinting = true;
    page.isOnPaper = true;
    openRows();
    folded = [...document.querySelectorAll(page.openedOnPaper)];
    folded.forEach((one) => { one.open = true; });
    choose("light");
  });
  addEventListener("afterprint", () => {
    page.isPrinting = false;
    page.isOnPaper = false;
    folded.forEach((one) => { one.open = false; });
    closed.forEach((row) => { row.hidden = true; });
    closed = [];
    choose(onScreen);
  });
})();

// Who is base: the page carries its content once for each side.
(() => {
  const control = document.getElementById("swap");
  const islands = [...document.querySelectorAll("script[data-base]")];
  if (control === null) {
    return;
  }
  const parts = ["title", "sides", "contents", "main", "origin"];
  const partOf = (whole, part) => whole.querySelector(`[data-part="${part}"]`);
  const banner = document.querySelector(".swapped");
  const contents = new Map();
  let shown = "";

  // The content with the page's own base, before any script has drawn into it.
  const own = document.createDocumentFragment();
  parts.forEach((part) => own.append(partOf(document, part).cloneNode(true)));
  contents.set("", own);

  // The markup is the page's own, escaped when it was written; a template runs no script of it.
  const load = async (base) => {
    if (!contents.has(base)) {
      const template = document.createElement("template");
      const island = islands.find(({ dataset }) => dataset.base === base);
      template.innerHTML = await page.unpack(island.textContent);
      contents.set(base, template.content);
    }
    return contents.get(base).cloneNode(true);
  };

  // What the reader looked at stays where it was.
  const keepPlace = (change) => {
    if (scrollY === 0) {
      change();
      return;
    }
    const read = page.sectionInView();
    const distance = read?.getBoundingClientRect().top;
    change();
    const again = read && document.getElementById(read.id);
    if (again) {
      scrollBy({ top: again.getBoundingClientRect().top - distance, behavior: "instant" });
    }
  };

  // The keyboard goes on from the same row or control of the part that replaced the one it was in.
  const keepFocus = (change) => {
    const focused = document.activeElement;
    const owner = focused.closest("[id], nav");
    const kin = (whole) => [...whole.querySelectorAll(focused.tagName)];
    const place = owner ? kin(owner).indexOf(focused) : -1;
    change();
    if (focused.isConnected) {
      return;
    }
    const again = owner?.id ? document.getElementById(owner.id) : document.querySelector("nav");
    const same = again && (place < 0 ? again : kin(again)[place]);
    if (same?.checkVisibility()) {
      page.focus(same);
    }
  };

  const tell = (base) => {
    const island = islands.find(({ dataset }) => dataset.base === base);
    banner.hidden = !island;
    const back = islands.length > 1 ? "choose another base above" : "press s to swap back";
    banner.textContent = island
      ? `Sides are swapped: A, the base, is now ${island.dataset.label} (${island.dataset.path}); ${back}`
      : "";
    if (control.matches("select")) {
      control.value = base;
    } else {
      control.setAttribute("aria-pressed", String(Boolean(island)));
    }
  };

  const show = async (wanted, isTurned = false) => {
    const base = islands.some(({ dataset }) => dataset.base === wanted) ? wanted : "";
    if (base === shown) {
      return;
    }
    shown = base;
    const fresh = await load(base);
    // Somebody may have asked for another one meanwhile.
    if (shown !== base) {
      return;
    }
    keepPlace(() => keepFocus(() => {
      parts.filter((part) => part !== "main").forEach((part) => {
        partOf(document, part).replaceWith(partOf(fresh, part));
      });
      tell(base);
      page.swap(partOf(fresh, "main"), isTurned);
    }));
  };

  const choose = async (base) => {
    page.state.set("base", base || null);
    await show(base, true);
    page.say(banner.textContent || "The sides are as the report was made.");
  };
  // The next side, and after the last one the page's own base again.
  const chooseNext = () => {
    const letters = ["", ...islands.map(({ dataset }) => dataset.base)];
    return choose(letters[(letters.indexOf(shown) + 1) % letters.length]);
  };
  if (control.matches("select")) {
    control.addEventListener("change", () => choose(control.value));
  } else {
    control.addEventListener("click", chooseNext);
  }
  page.press("s", "swap the sides: the next one is base", () => { chooseNext(); });
  page.state.on("base", (base) => show(base));
  page.until(show(page.state.get("base")));
})();

// The menu closes when somebody turns to something else.
(() => {
  const menu = document.querySelector(".menu");
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
  document.querySelector(".tools").hidden = false;
})();
