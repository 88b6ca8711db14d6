"use strict";
// Numbers as the terminal's table rounds them.

const DIGITS = 4;
const NO_BREAK = "\u00a0";

/** Four digits, trailing zeros kept so that a column lines up. */
function number(value) {
  if (value === null || value === undefined) return "";
  if (value === 0) return (0).toFixed(DIGITS - 1);
  const [digits, power] = inDigits(value).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < DIGITS) return Number(`${digits}e${power}`).toFixed(DIGITS - 1 - exponent);
  return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/** Rounded to four digits; a value right between two goes to the even one, as in Python. */
function inDigits(value) {
  const [exact, power] = value.toExponential(60).split("e");
  const end = exact.indexOf(".") + DIGITS;
  const between = /^50*$/.test(exact.slice(end));
  const even = Number(exact[end - 1]) % 2 === 0;
  return between && even ? `${exact.slice(0, end)}e${power}` : value.toExponential(DIGITS - 1);
}

function percent(share) {
  if (share === null || share === undefined) return "";
  const value = 100 * share;
  if (value < 1) return `<${NO_BREAK}1${NO_BREAK}%`;
  if (value > 99) return `>${NO_BREAK}99${NO_BREAK}%`;
  return `${value.toFixed(0)}${NO_BREAK}%`;
}

/** A step: whole where it is whole. */
function stepText(step) {
  if (step === null || step === undefined) return "";
  return Number.isInteger(step) ? step.toLocaleString("en") : String(Number(step.toPrecision(6)));
}

/** An entry of a configuration; a fraction with no more digits than tell it from others. */
function setting(value) {
  if (value === null) return "none";
  const fraction = typeof value === "number" && !Number.isInteger(value);
  return fraction ? String(Number(value.toPrecision(6))) : String(value);
}

function range(low, high) {
  return `${number(low)} to ${number(high)}`;
}

function count(items, one) {
  return `${items.toLocaleString("en")} ${one}${items === 1 ? "" : "s"}`;
}

function capital(sentence) {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}
