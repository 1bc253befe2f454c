// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Draws the page's charts when they come into view.
(() => {
  // A browser keeps this many drawn charts without becoming slow; others are drawn again when they
  // come into view.
  const MOST_DRAWN = 12;
  // Width of A4 and letter paper between the margins, in CSS pixels.
  const PAPER_WIDTH = 680;

  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  const plots = [];
  const figures = new WeakMap();
  const shown = new WeakMap();
  const drawnWidths = new WeakMap();
  const inView = new Set();

  // Colours are names of the style sheet, so that one figure serves light and dark.
  const colour = (name) => {
    probe.style.color = name;
    return getComputedStyle(probe).color;
  };

  const resolve = (value) => {
    if (typeof value === "string") {
      return /^var\(--[a-z0-9-]+\)$/.test(value) ? colour(value) : value;
    }
    if (Array.isArray(value)) {
      return value.map(resolve);
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolve(item)]));
    }
    return value;
  };

  const widthOf = (plot) => (page.isOnPaper ? PAPER_WIDTH : plot.clientWidth);
  const isNarrow = (plot) => widthOf(plot) < 520;

  // On a phone the names are above their lines, so that the lines have the full width.
  const liftNames = (layout) => {
    const { tickvals, ticktext } = layout.yaxis ?? {};
    if (ticktext) {
      layout.yaxis.showticklabels = false;
      layout.annotations = ticktext.map((text, place) => ({
        text, xref: "paper", x: 0, xanchor: "left", y: tickvals[place] - 0.5, yanchor: "top",
        showarrow: false, borderpad: 0,
      }));
    }
  };

  const dress = (layout, plot) => {
    const dressed = resolve(layout);
    const ink = colour("var(--ink)");
    const axes = Object.keys(dressed).filter((key) => /^[xy]axis/.test(key));
    for (const name of axes) {
      const axis = dressed[name];
      dressed[name] = {
        gridcolor: colour("var(--line)"),
        linecolor: colour("var(--line)"),
        tickangle: 0,
        ...axis,
        title: { standoff: 10, ...axis.title, font: { size: isNarrow(plot) ? 11 : 12.5, color: colour("var(--muted)") } },
      };
    }
    if (isNarrow(plot)) {
      liftNames(dressed);
    }
    return {
      ...dressed,
      autosize: !page.isOnPaper,
      ...(page.isOnPaper ? { width: PAPER_WIDTH, height: plot.clientHeight } : {}),
      paper_bgcolor: "transparent",
      plot_bgcolor: "transparent",
      colorway: ["var(--base)", "var(--new)", "var(--good)", "var(--bad)"].map(colour),
      font: { family: getComputedStyle(page.root).fontFamily, size: isNarrow(plot) ? 11 : 13, color: ink },
      hoverlabel: {
        bgcolor: colour("var(--paper)"),
        bordercolor: colour("var(--line)"),
        font: { color: ink },
        align: "left",
      },
      dragmode: false,
    };
  };

  // Synchronous, so that it is complete when the browser's own print command continues.
  const draw = (plot) => {
    const figure = figures.get(plot);
    const hasNamesAbove = isNarrow(plot) && figure.layout.yaxis?.ticktext;
    plot.style.height = hasNamesAbove ? "calc(1.6 * var(--height))" : "";
    const options = { responsive: true, displayModeBar: false };
    drawnWidths.set(plot, widthOf(plot));
    return Plotly.react(plot, resolve(figure.data), dress(figure.layout, plot), options);
  };

  // The page carries the library compressed, or has the address of a file that many pages share.
  // The policy contains the hash of either.
  const load = async () => {
    const { dataset, textContent } = document.getElementById("plotly");
    const script = document.createElement("script");
    if (dataset.source === undefined) {
      script.textContent = await page.unpack(textContent);
      document.head.append(script);
      return;
    }
    script.src = dataset.source;
    // A browser cannot check a file that is loaded by a page from disk.
    if (location.protocol !== "file:") {
      script.integrity = dataset.integrity;
    }
    await new Promise((resolve, reject) => {
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error(`chart library not found: ${dataset.source}, relative to this page`)));
      document.head.append(script);
    });
  };
  let loading = null;

  const drawFirst = async (plot) => {
    plot.dataset.drawn = "started";
    try {
      loading ??= load();
      const [figure] = await Promise.all([page.island(plot.parentElement), loading]);
      figures.set(plot, figure);
      await draw(plot);
      plot.dataset.drawn = "done";
    } catch (error) {
      plot.dataset.drawn = "failed";
      plot.querySelector(".waiting").textContent = `This chart cannot be drawn (${error.message}); its numbers are in the tables of this section.`;
    }
  };

  // A second request for a chart, such as for paper, waits for the drawing in progress.
  const show = (plot) => {
    if (!shown.has(plot)) {
      shown.set(plot, drawFirst(plot));
    }
    return shown.get(plot);
  };

  const isDrawn = (plot) => plot.dataset.drawn === "done";

  const forget = (plot) => {
    Plotly.purge(plot);
    shown.delete(plot);
    delete plot.dataset.drawn;
  };

  const showWhatIsSeen = async (entries) => {
    for (const { isIntersecting, target } of entries) {
      inView[isIntersecting ? "add" : "delete"](target);
    }
    await Promise.all([...inView].map(show));
    // A chart drawn for paper while it was folded has had no width yet.
    [...inView].filter((plot) => isDrawn(plot) && drawnWidths.get(plot) === 0).forEach(draw);
    const drawn = plots.filter(isDrawn);
    if (!page.isPrinting) {
      drawn.filter((plot) => !inView.has(plot)).slice(0, Math.max(0, drawn.length - MOST_DRAWN)).forEach(forget);
    }
  };

  const watcher = new IntersectionObserver(showWhatIsSeen, { rootMargin: "300px" });
  page.attach((main) => {
    const own = [...main.querySelectorAll("figure.chart > .plot")];
    plots.push(...own);
    own.forEach((plot) => watcher.observe(plot));
  });
  addEventListener("colours", () => plots.filter(isDrawn).forEach(draw));
  page.prepare(() => Promise.all(plots.filter(page.isForPaper).map(show)));
})();
