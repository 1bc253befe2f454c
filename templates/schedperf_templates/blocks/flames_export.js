// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The call stacks of a flame graph as files for other viewers, in the formats of
// schedperf profile --export. Small frames are merged as in the graph.
const FlameExport = (() => {
  const REST = "[smaller frames]";

  // Samples that end in each frame, in the unit of the event, mean of a side's runs.
  const weigh = (tree) => {
    const [share] = tree.data.measures;
    return ["base", "new"].slice(0, tree.sides).map((side, place) =>
      share.self[side].map((part) => Math.round(((part ?? 0) / 100) * tree.data.totals[place])));
  };

  const label = (tree, frame) => (tree.isRemainder(frame) ? REST : tree.name(frame));

  const folded = (tree) => {
    const weights = weigh(tree);
    const lines = new Map();
    tree.data.parent.forEach((_, frame) => {
      const counts = weights.map((side) => side[frame]);
      if (frame > 0 && counts.some((count) => count)) {
        const stack = tree.callersOf(frame).map((one) => label(tree, one).replaceAll(";", ":")).join(";");
        const before = lines.get(stack) ?? counts.map(() => 0);
        lines.set(stack, counts.map((count, side) => count + before[side]));
      }
    });
    return [...lines].map(([stack, counts]) => `${stack} ${counts.join(" ")}\n`).sort().join("");
  };

  const profile = (tree, weights, side, numbers) => {
    const ends = [...weights.keys()].filter((frame) => frame > 0 && weights[frame]);
    const stacks = ends.map((frame) => ({
      weight: weights[frame], frames: tree.callersOf(frame).map((one) => numbers.get(label(tree, one))),
    }));
    // Neighbours with equal frames are drawn as one box, so equal beginnings stand together.
    const order = (a, b) => {
      const place = a.findIndex((one, at) => one !== b[at]);
      return place < 0 ? a.length - b.length : a[place] - (b[place] ?? -1);
    };
    stacks.sort((a, b) => order(a.frames, b.frames));
    return {
      type: "sampled",
      name: `${tree.data.labels[side]}: ${tree.data.event}`,
      unit: tree.data.unit === "ns" ? "nanoseconds" : "none",
      startValue: 0,
      endValue: stacks.reduce((sum, one) => sum + one.weight, 0),
      weights: stacks.map((one) => one.weight),
      samples: stacks.map((one) => one.frames),
    };
  };

  // schema: the address by which the format calls itself.
  const speedscope = (tree, schema) => {
    const names = new Set([...tree.data.parent.keys()].slice(1).map((frame) => label(tree, frame)));
    const numbers = new Map([...names].map((name, number) => [name, number]));
    return JSON.stringify({
      $schema: schema,
      exporter: "schedperf",
      name: [...tree.data.labels].reverse().join(" against "),
      activeProfileIndex: 0,
      shared: { frames: [...names].map((name) => ({ name })) },
      profiles: weigh(tree).map((weights, side) => profile(tree, weights, side, numbers)),
    });
  };

  return { folded, speedscope };
})();
