// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// A flame graph without idle time, or of the kernel alone: the same numbers in a smaller tree.
const FlameReduce = (() => {
  const ROOT = -1;
  const REMAINDER = -2;
  // Functions that are left out with all their callees.
  const GONE = -1;
  const OWN = ["base", "new"];
  const DECIDED = ["low", "high", "q"];

  // The frame of the smaller tree that contains each frame, and the smaller tree. A frame of user
  // code that is left out passes its callees to its caller, where equal names are merged.
  const fold = (data, wish) => {
    const tree = { to: [0], parent: [-1], name: [ROOT], hidden: [0], members: [[0]], partial: new Set() };
    const known = new Map();
    const kind = (frame) => data.names[data.name[frame]];
    const isUser = (frame) => !kind(frame)?.kernel;
    const isGone = (frame) => (wish.busy && kind(frame)?.class === "idle")
      // It is unknown which of the merged frames below user code belong to the kernel.
      || (wish.kernel && data.name[frame] === REMAINDER && isUser(data.parent[frame]));
    data.parent.forEach((parent, frame) => {
      if (frame === 0) {
        return;
      }
      const above = tree.to[parent];
      if (above === GONE || isGone(frame)) {
        tree.to[frame] = GONE;
        markPartial(tree, above);
      } else if (wish.kernel && data.name[frame] !== REMAINDER && isUser(frame)) {
        tree.to[frame] = above;
        markPartial(tree, above);
      } else {
        tree.to[frame] = addFrame(data, tree, known, above, frame);
      }
    });
    return tree;
  };

  // A frame that lost part of its time has no interval.
  const markPartial = (tree, frame) => {
    for (let one = frame; one >= 0 && !tree.partial.has(one); one = tree.parent[one]) {
      tree.partial.add(one);
    }
  };

  const addFrame = (data, tree, known, above, frame) => {
    const key = `${above} ${data.name[frame]}`;
    if (!known.has(key)) {
      known.set(key, tree.parent.length);
      tree.parent.push(above);
      tree.name.push(data.name[frame]);
      tree.hidden.push(0);
      tree.members.push([]);
    }
    const place = known.get(key);
    tree.hidden[place] += data.hidden[frame];
    tree.members[place].push(frame);
    return place;
  };

  const sumOwn = (data, tree, wish, values) => {
    const sums = tree.parent.map(() => 0);
    tree.members.forEach((members, place) => members.forEach((frame) => {
      // The root's own samples have no stack, so their caller is unknown.
      sums[place] += frame === 0 && wish.kernel ? 0 : values[frame] ?? 0;
    }));
    return sums;
  };

  // Intervals are kept for frames that did not change.
  const keepDecided = (tree, extent) => {
    const isSame = (place) => tree.members[place].length === 1 && !tree.partial.has(place);
    const kept = DECIDED.filter((name) => extent[name]).map((name) => [
      name, tree.members.map((members, place) => (isSame(place) ? extent[name][members[0]] : null)),
    ]);
    return Object.fromEntries(kept);
  };

  // If a frame has several call paths, use one that changed in the direction of the sum.
  const keepChanged = (tree, changed, extent, sums) => {
    const along = (frame, place) => (extent.new[frame] - extent.base[frame]) * (sums.new[place] - sums.base[place]) > 0;
    return [...tree.parent.keys()].filter((place) => tree.members[place].some((frame) => changed.has(frame) && along(frame, place)));
  };

  // Frames that changed with their callees, and those that did as a part of their function.
  const keepAllChanged = (tree, measure, inclusive, own) => {
    const counted = new Set(measure.changed);
    const withCallees = new Set(measure.inclusive.changed.filter((frame) => counted.has(frame)));
    const asPart = new Set(measure.changed.filter((frame) => !withCallees.has(frame)));
    const whole = keepChanged(tree, withCallees, measure.inclusive, inclusive).filter((place) => !tree.partial.has(place));
    const part = keepChanged(tree, asPart, measure.self, own);
    return { whole, changed: [...new Set([...whole, ...part])].sort((a, b) => a - b) };
  };

  const reduceMeasure = (data, tree, wish, measure) => {
    const own = {};
    const inclusive = {};
    for (const side of OWN.filter((name) => measure.self[name])) {
      own[side] = sumOwn(data, tree, wish, measure.self[side]);
      inclusive[side] = FlameParts.sumCalled(tree.parent, own[side]);
    }
    const { whole, changed } = measure.inclusive.changed ? keepAllChanged(tree, measure, inclusive, own) : { changed: [] };
    return {
      ...measure,
      changed,
      inclusive: { ...inclusive, ...keepDecided(tree, measure.inclusive), ...(whole ? { changed: whole } : {}) },
      self: { ...own, ...keepDecided(tree, measure.self) },
    };
  };

  return (data, wish) => {
    if (!wish.kernel && !wish.busy) {
      return data;
    }
    const tree = fold(data, wish);
    const { parent, name, hidden } = tree;
    return { ...data, parent, name, hidden, measures: data.measures.map((one) => reduceMeasure(data, tree, wish, one)) };
  };
})();
