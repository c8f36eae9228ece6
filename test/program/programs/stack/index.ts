import { Config } from "@pulumi/pulumi";
import { SnapshotStack, type SnapshotStackArgs } from "ramet";
import { notAwaited } from "../not-awaited.mts";

const stack = new SnapshotStack("stack", {
  ...new Config().requireObject<SnapshotStackArgs>("stack"),
  transform: { object: notAwaited },
});

export const facts = stack.facts;
export const classNames = stack.classNames;
