// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Draw the timeline by Plotly, from the table of nights, in place of the static drawing.
(() => {
  const { plotly, styles } = document.currentScript.dataset;
  const figure = document.getElementById("timeline");
  const plot = figure.querySelector(".plot");
  const drawing = figure.querySelector("svg.timeline");
  const isRatio = figure.dataset.ratio === "yes";
  const MARGIN = 3;
  const NAMES = { same: "no change", worse: "worse", better: "better", moved: "moved", unclear: "unclear" };

  const numberOf = (text) => (text === undefined ? null : Number(text) * (isRatio ? 100 : 1));

  const readNights = () =>
    [...document.querySelectorAll("#table tbody tr")].reverse().map((row) => {
      const cell = row.querySelector("[data-change]");
      return {
        night: row.dataset.night,
        kind: row.className,
        kernel: row.querySelector("code").textContent,
        value: numberOf(cell?.dataset.change),
        low: numberOf(cell?.dataset.low),
        high: numberOf(cell?.dataset.high),
      };
    });

  const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // light-dark() of a custom property is resolved on an element only.
  const resolve = (name) => {
    const probe = document.createElement("i");
    probe.style.color = colourOf(name);
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  };

  const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/\$/g, "&#36;");

  const traces = (nights) => {
    const colours = {
      same: resolve("--new"),
      worse: resolve("--worse-cell"),
      better: resolve("--better-cell"),
      moved: resolve("--moved"),
      unclear: resolve("--new"),
    };
    return Object.keys(NAMES)
      .map((kind) => [kind, nights.filter((one) => one.kind === kind && one.value !== null)])
      .filter(([, chosen]) => chosen.length > 0)
      .map(([kind, chosen]) => ({
        type: "scatter",
        mode: "markers",
        name: NAMES[kind],
        x: chosen.map((one) => one.night),
        y: chosen.map((one) => one.value),
        text: chosen.map((one) => escape(one.kernel)),
        hovertemplate: `%{x}<br>%{y:.2f}${isRatio ? "%" : ""}<br>%{text}<extra></extra>`,
        marker: { color: colours[kind], size: 6, symbol: kind === "unclear" ? "circle-open" : "circle" },
        error_y: {
          type: "data",
          symmetric: false,
          thickness: 1,
          width: 0,
          array: chosen.map((one) => (one.high === null ? 0 : one.high - one.value)),
          arrayminus: chosen.map((one) => (one.low === null ? 0 : one.value - one.low)),
        },
      }));
  };

  const marks = () => [...figure.querySelectorAll(".marks li")];

  const layout = () => {
    const ink = resolve("--ink");
    const muted = resolve("--muted");
    const line = resolve("--line");
    const shapes = marks().map((mark) => ({
      type: "line", x0: mark.dataset.night, x1: mark.dataset.night, yref: "paper", y0: 0, y1: 1,
      line: { dash: "dash", width: 1, color: muted },
    }));
    if (isRatio) {
      shapes.push({ type: "rect", xref: "paper", x0: 0, x1: 1, y0: -MARGIN, y1: MARGIN, fillcolor: muted, opacity: 0.12, line: { width: 0 }, layer: "below" });
    }
    const isNarrow = figure.clientWidth < 600;
    const annotations = marks().slice(-6).map((mark, number) => ({
      x: mark.dataset.night, yref: "paper", y: 1 - 0.07 * (number % 3), xanchor: "left", yanchor: "top",
      text: escape(mark.dataset.label.slice(0, isNarrow ? 24 : 60)), showarrow: false, font: { size: 11, color: ink }, bgcolor: resolve("--paper"), opacity: 0.85,
    }));
    return {
      shapes,
      annotations,
      margin: { l: 56, r: 12, t: 12, b: 56 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, size: 12 },
      xaxis: { gridcolor: line, zeroline: false },
      yaxis: { gridcolor: line, zerolinecolor: muted, ticksuffix: isRatio ? "%" : "" },
      legend: { orientation: "h", y: -0.18 },
      hovermode: "closest",
      dragmode: "zoom",
    };
  };

  const draw = () => {
    drawing.setAttribute("hidden", "");
    drawing.style.display = "none";
    plot.hidden = false;
    const options = { responsive: true, displaylogo: false, displayModeBar: false };
    return Plotly.react(plot, traces(readNights()), layout(), options).then(() => {
      figure.dataset.drawn = "yes";
    });
  };

  const start = () => {
    if (!drawing) {
      return;
    }
    // Without this element, Plotly would add a style sheet for maps, which the policy refuses.
    if (styles) {
      const mark = document.createElement("meta");
      mark.id = styles;
      document.head.append(mark);
    }
    const script = document.createElement("script");
    script.src = plotly;
    script.addEventListener("load", () => {
      draw().then(() => plot.on("plotly_click", (event) => self.site.compare?.(event.points[0].x)));
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    });
    document.head.append(script);
  };

  addEventListener("beforeprint", () => {
    drawing?.style.removeProperty("display");
  });
  addEventListener("afterprint", () => {
    if (figure.dataset.drawn) {
      drawing.style.display = "none";
    }
  });
  start();
})();
