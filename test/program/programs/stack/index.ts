import { Config } from "@pulumi/pulumi";
import { SnapshotStack, type SnapshotStackArgs } from "ramet";

const stack = new SnapshotStack("stack", new Config().requireObject<SnapshotStackArgs>("stack"));

export const facts = stack.facts;
export const classNames = stack.classNames;
