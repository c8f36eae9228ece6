import * as z from "zod";
import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import { annotations, jsonAnnotation } from "../names/labels.ts";

/** A tag of a version, as in `python:stable`: a name that can move to another version. */
export const tagPattern = /^[a-z0-9_.-]{1,128}$/;

/** The tag that always names the current version. */
export const defaultTag = "default";

const Tags = z.record(z.string().regex(tagPattern), z.int().min(1));

/** The versions of a named snapshot by their tags. An annotation that nobody can read names none. */
export function tagsOf(snapshot: Pick<NamedSnapshot, "metadata">): Readonly<Record<string, number>> {
  return jsonAnnotation(snapshot, annotations.tags, Tags) ?? {};
}

export function tagsAnnotation(tags: Readonly<Record<string, number>>): Record<string, string> {
  return { [annotations.tags]: JSON.stringify(tags) };
}
