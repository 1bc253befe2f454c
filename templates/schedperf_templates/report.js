"use strict";
// Draws the page's charts when they come into view, and switches light and dark.
// Everything else works without this script.
(() => {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll("figure.chart > .plot")];
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;

  // Colours are names of the style sheet, so that one figure serves light and dark.
  const colour = (name) => {
    probe.style.color = name;
    return getComputedStyle(probe).color;
  };

  const resolve = (value) => {
    if (typeof value === "string") {
      return /^var\(--[a-z]+\)$/.test(value) ? colour(value) : value;
    }
    if (Array.isArray(value)) {
      return value.map(resolve);
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolve(item)]));
    }
    return value;
  };

  const isNarrow = (plot) => plot.clientWidth < 520;

  // On a telephone names stand above their lines, so that the lines have all the width.
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
      autosize: true,
      paper_bgcolor: "transparent",
      plot_bgcolor: "transparent",
      colorway: ["var(--base)", "var(--new)", "var(--good)", "var(--bad)"].map(colour),
      font: { family: getComputedStyle(root).fontFamily, size: isNarrow(plot) ? 11 : 13, color: ink },
      hoverlabel: {
        bgcolor: colour("var(--paper)"),
        bordercolor: colour("var(--line)"),
        font: { color: ink },
        align: "left",
      },
      dragmode: false,
    };
  };

  const draw = async (plot) => {
    const figure = JSON.parse(plot.nextElementSibling.textContent);
    plot.dataset.drawn = "started";
    plot.dataset.height ??= plot.clientHeight;
    const hasNamesAbove = isNarrow(plot) && figure.layout.yaxis?.ticktext;
    plot.style.height = `${plot.dataset.height * (hasNamesAbove ? 1.6 : 1)}px`;
    plot.querySelector(".waiting")?.remove();
    const options = { responsive: true, displayModeBar: false };
    await Plotly.react(plot, resolve(figure.data), dress(figure.layout, plot), options);
    plot.dataset.drawn = "done";
  };

  // The library lies in the page compressed. The policy knows the hash of what comes out.
  let loading = null;
  const load = () => {
    loading ??= (async () => {
      const packed = atob(document.getElementById("plotly").textContent);
      const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const script = document.createElement("script");
      script.textContent = await new Response(stream).text();
      document.head.append(script);
    })();
    return loading;
  };

  const show = async (plot) => {
    try {
      await load();
      await draw(plot);
    } catch (error) {
      plot.dataset.drawn = "failed";
      plot.textContent = `This chart cannot be drawn (${error.message}); its numbers are in the tables.`;
    }
  };

  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) {
          watcher.unobserve(target);
          show(target);
        }
      }
    },
    { rootMargin: "300px" },
  );
  plots.forEach((plot) => watcher.observe(plot));

  const redraw = () => plots.filter((plot) => plot.dataset.drawn === "done").forEach(draw);

  const isDark = () => colour("var(--paper)") !== colour("var(--lightpaper)");
  const button = document.getElementById("theme");
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    name();
    redraw();
  });
  button.hidden = false;
  name();

  // A link to a row that is folded away opens it.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target?.closest("details:not([open])");
    if (folded) {
      folded.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);

  // Paper is white, and nothing unfolds on it.
  let themeOnScreen = null;
  addEventListener("beforeprint", () => {
    themeOnScreen = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
    redraw();
    if (window.Plotly) {
      plots.filter((plot) => !plot.dataset.drawn).forEach(show);
    }
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = themeOnScreen;
    redraw();
  });

  // The section that is being read is marked in the list of sections.
  const links = new Map(
    [...document.querySelectorAll("nav a")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]),
  );
  const reader = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        links.get(target.id)?.setAttribute("aria-current", isIntersecting ? "true" : "false");
      }
    },
    { rootMargin: "-20% 0px -70% 0px" },
  );
  document.querySelectorAll("main > section").forEach((section) => reader.observe(section));

  reveal();
})();
