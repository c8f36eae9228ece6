import { expect, it } from "vitest";
import { isPinned, parseImageReference } from "./image-reference.ts";

const digest = `sha256:${"ab".repeat(32)}`;

it.each([
  ["python", { repository: "python" }],
  ["python:3.13-slim", { repository: "python", tag: "3.13-slim" }],
  ["registry.example:5000/team/python", { repository: "registry.example:5000/team/python" }],
  ["registry.example:5000/team/python:3", { repository: "registry.example:5000/team/python", tag: "3" }],
  [`a/b__c@${digest}`, { repository: "a/b__c", digest }],
  [`[fd00::1]:5000/a:1@${digest}`, { repository: "[fd00::1]:5000/a", tag: "1", digest }],
])("parses %s", (text, parts) => {
  expect(parseImageReference(text)).toEqual(parts);
});

it.each(["", " python", "Python", "python:", "python@sha256:12", "a//b", "a b", "https://a/b", "python:1:2"])(
  "rejects %j",
  (text) => {
    expect(parseImageReference(text)).toBeUndefined();
  },
);

it.each([
  ["python", false],
  ["python:latest", false],
  ["registry.example:5000/python", false],
  ["python:3.13", true],
  [`python:latest@${digest}`, true],
  [`python@${digest}`, true],
])("reports whether %s is pinned: %s", (text, pinned) => {
  expect(isPinned(parseImageReference(text) ?? { repository: "" })).toBe(pinned);
});
