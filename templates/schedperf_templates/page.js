// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// What all scripts of the page share: its state in the address, its data, its main part.
// The page has all its text without scripting.
const page = (() => {
  const root = document.documentElement;
  const attached = [];
  const listeners = new Map();
  const settling = [];

  // The address is "#anchor", or "#anchor?name=value&name=value".
  const read = () => {
    const [anchor, query] = location.hash.slice(1).split(/\?(.*)/s);
    return { anchor: unescape(anchor), values: new URLSearchParams(query ?? "") };
  };
  // An address may contain a lone percent sign.
  const unescape = (text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };
  const write = (anchor, values) => {
    const query = values.toString();
    const hash = `#${encodeURIComponent(anchor)}${query ? `?${query}` : ""}`;
    history.replaceState(null, "", hash === "#" ? location.pathname + location.search : hash);
  };
  const state = {
    get: (name) => read().values.get(name),
    // null is the default, which is not written to the address.
    set(name, value) {
      const { anchor, values } = read();
      values.delete(name);
      if (value !== null) {
        values.set(name, value);
      }
      write(anchor, values);
    },
    // Calls the listener with the value, or null, if a newly opened address changes it.
    on(name, listener) {
      listeners.set(name, [...(listeners.get(name) ?? []), listener]);
    },
  };

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  // The data of a graphic: in the element, as text or compressed. It is read once.
  const islands = new WeakMap();
  const readIsland = async (element) => {
    const found = element.querySelector(":scope > script[type^='application/']");
    return JSON.parse(found.type === "application/gzip" ? await unpack(found.textContent) : found.textContent);
  };
  const island = (element) => {
    if (!islands.has(element)) {
      islands.set(element, readIsland(element));
    }
    return islands.get(element);
  };

  // Opens folded parts that contain the target of a link.
  const reveal = () => {
    const { anchor, values } = read();
    const named = anchor ? document.getElementById(anchor) ?? shared.later.byId(anchor) : null;
    // The state of a folded table is seen when it is opened.
    for (const name of values.keys()) {
      const element = shared.later.byState(name);
      if (element) {
        unfold(element);
      }
    }
    const target = (root.dataset.ready ? null : stateIn(named, values)) ?? named;
    if (target) {
      // A link to a folded section opens it.
      unfold(target.querySelector(":scope > details.unchanged > summary") ?? target);
    }
    target?.dispatchEvent(new CustomEvent("reveal", { bubbles: true }));
    markTarget(named);
    show(target);
    target?.dispatchEvent(new CustomEvent("shown"));
    if (target && root.dataset.ready) {
      focus(target);
    }
    return target;
  };

  // What the state of an opened address is about: the graph or table that was changed last, or the
  // row that was opened in it. A row that the address names is shown instead, and so is a section
  // without it.
  const stateIn = (named, values) => {
    const name = [...values.keys()].at(-1);
    const element = name ? document.querySelector(`[data-state="${CSS.escape(name)}"]`) : null;
    if (!element || (named && !(named.matches("section") && named.contains(element)))) {
      return null;
    }
    return element.querySelector("tr.opened:not([hidden])") ?? element;
  };

  // Scrolls to an element at once: smooth scrolling over a long page takes seconds.
  const show = (element) => {
    // A flame graph grows when it is drawn.
    const isWhole = element?.matches("section, figure.flames") || element?.getBoundingClientRect().height > innerHeight;
    element?.scrollIntoView({ block: isWhole ? "start" : "center", behavior: "instant" });
  };

  // Opens everything that is folded around an element.
  const unfold = (element) => {
    for (let folded = element.closest("details:not([open])"); folded; folded = folded.closest("details:not([open])")) {
      shared.later.fill(folded);
      folded.open = true;
    }
  };

  // Browsers find no target if state follows the anchor.
  const markTarget = (target) => {
    document.querySelectorAll("[data-target]").forEach((one) => one.removeAttribute("data-target"));
    target?.setAttribute("data-target", "");
  };

  // Moves the focus to an element, even if it is not focusable.
  const focus = (element) => {
    if (element.tabIndex < 0 && !element.hasAttribute("tabindex")) {
      element.setAttribute("tabindex", "-1");
      element.addEventListener("blur", () => {
        if (element.getAttribute("tabindex") === "-1") {
          element.removeAttribute("tabindex");
        }
      }, { once: true });
    }
    element.focus({ preventScroll: true });
  };

  // Goes to an anchor; "anchor?name=value" also changes the state.
  const go = (address) => {
    const [anchor, query] = address.split(/\?(.*)/s);
    const { values } = read();
    new URLSearchParams(query ?? "").forEach((value, name) => {
      values.delete(name);
      values.set(name, value);
    });
    const state = values.toString();
    const hash = `#${anchor}${state ? `?${state}` : ""}`;
    // Opening an address twice changes nothing, but the reader may have scrolled away.
    if (hash === location.hash) {
      reveal();
    } else {
      location.hash = hash;
    }
  };

  const settle = () => settling.forEach((act) => act());

  const openedOnPaper = "main details:is(.fold, .commands, .unchanged):not([open])";

  const shared = {
    openedOnPaper,
    root, state, unescape, unpack, island, reveal, unfold, markTarget, go, focus,
    // Registers a function that draws into the main part after all scripts are loaded.
    attach: (draw) => attached.push(draw),
    // Draws into a part that has just been filled.
    draw: (part) => attached.forEach((draw) => draw(part)),
    // The section being read: the first one that is not above the sticky head.
    sectionInView() {
      const top = parseFloat(getComputedStyle(root).scrollPaddingTop);
      return [...document.querySelectorAll("main > section")].find((one) => one.getBoundingClientRect().bottom > top);
    },
    // The address of the current view; an anchor within the current section is kept.
    addressHere() {
      settle();
      const { anchor, values } = read();
      const section = shared.sectionInView();
      const isNamed = section?.contains(document.getElementById(anchor));
      write(isNamed ? anchor : scrollY === 0 ? "" : section?.id ?? "", values);
      return location.href;
    },
    // Names an element in the address and changes nothing else.
    name: (anchor) => write(anchor, read().values),
    // Registers pending work to be done before the address is read.
    settle: (act) => settling.push(act),
    start() {
      const main = document.querySelector("main");
      shared.later.hold(main);
      shared.draw(main);
      const target = reveal();
      // In the first frame after loading, browsers scroll to the anchor themselves.
      const showAfterIt = () => requestAnimationFrame(() => requestAnimationFrame(() => show(target)));
      addEventListener("load", showAfterIt, { once: true });
      root.dataset.ready = "true";
      performance.mark("ready");
    },
    changed() {
      listeners.forEach((some, name) => some.forEach((listener) => listener(state.get(name))));
      reveal();
    },
  };
  return shared;
})();

// Links within the page keep the state in the address.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link && !event.defaultPrevented) {
    event.preventDefault();
    page.go(link.hash.slice(1));
  }
});
addEventListener("hashchange", page.changed);

// Marks the section being read in the list of sections.
(() => {
  const mark = (entries) => {
    const links = new Map(
      [...document.querySelectorAll("nav a")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]),
    );
    for (const { isIntersecting, target } of entries) {
      links.get(target.id)?.setAttribute("aria-current", isIntersecting ? "true" : "false");
    }
    follow(document.querySelector("nav"));
  };
  // On a phone the list is one line, which scrolls sideways.
  const follow = (list) => {
    const chapter = list.querySelector("li:has([aria-current='true'])");
    if (chapter && list.scrollWidth > list.clientWidth) {
      list.scrollTo({ left: chapter.offsetLeft - list.clientWidth / 3 });
    }
  };
  page.attach((main) => {
    const reader = new IntersectionObserver(mark, { rootMargin: "-20% 0px -70% 0px" });
    main.querySelectorAll("section").forEach((section) => reader.observe(section));
  });
})();
