"use strict";
// From values to places on the screen, and the round values at which an axis is labelled.

/** A map from [low, high] to [from, to], evenly or by logarithms. */
function makeScale(low, high, from, to, logarithmic = false) {
  const turn = logarithmic ? Math.log : (value) => value;
  const start = turn(low);
  const width = turn(high) - start || 1;
  const place = (value) => from + ((turn(value) - start) / width) * (to - from);
  return Object.assign(place, { low, high, logarithmic });
}

/** About `wanted` round values from low to high. */
function ticks(low, high, wanted) {
  const width = high - low;
  if (!(width > 0) || !Number.isFinite(width)) return [low];
  const rough = width / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const share = rough / power;
  const step = power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const found = [];
  for (let i = first; i <= last && found.length < 50; i++) found.push(i * step);
  return found;
}

/** Powers of ten from low to high, with what lies between them where there are few. */
function logTicks(low, high) {
  const from = Math.floor(Math.log10(low));
  const to = Math.ceil(Math.log10(high));
  const factors = to - from <= 2 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil((to - from) / 8));
  const found = [];
  for (let power = from; power <= to; power += every) {
    for (const factor of factors) found.push(factor * 10 ** power);
  }
  const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  return inside.length >= 2 ? inside : [low, high];
}

/** The text of a tick: as many digits as tell it from its neighbours. */
function tickText(value, all) {
  if (value === 0) return "0";
  const step = all.length > 1 ? Math.abs(all[1] - all[0]) : Math.abs(value);
  const largest = Math.max(...all.map(Math.abs));
  if (largest >= 1e6 || step < 1e-4) return value.toExponential(1).replace("e+", "e");
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}

/**
 * A range that shows what must be seen, and of other values all but a few that lie far from the rest,
 * further than `reach` times what most of them span.
 */
function robustRange(values, needed = [], reach = 1) {
  const sorted = [...values, ...needed].filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return [0, 1];
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  let [low, high] = [sorted[0], sorted[sorted.length - 1]];
  const [innerLow, innerHigh] = [at(0.1), at(0.9)];
  const room = reach * (innerHigh - innerLow);
  if (room > 0) {
    low = Math.min(Math.max(low, innerLow - room), ...needed);
    high = Math.max(Math.min(high, innerHigh + room), ...needed);
  }
  if (!(high > low)) {
    const pad = Math.abs(low) * 0.05 || 0.5;
    [low, high] = [low - pad, high + pad];
  }
  return [low, high];
}

/** The same, widened to round values, so that it seldom changes while runs go on. */
function roundRange([low, high], wanted = 5) {
  const marks = ticks(low, high, wanted);
  if (marks.length < 2) return [low, high];
  const step = marks[1] - marks[0];
  return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
}
