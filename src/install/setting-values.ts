import type { Setting } from "./setting.ts";
import { commands, type SettingKey, settings } from "./settings.ts";

export type SettingsCommand = keyof typeof commands;
export type Server = Exclude<SettingsCommand, "manifests">;

export type Words<Lines extends string> = Lines extends `${infer First} ${infer Others}`
  ? First | Words<Others>
  : Lines;
/** The settings that a command takes. */
export type KeyOf<Command extends SettingsCommand> = Words<(typeof commands)[Command][number]>;

/** Values by the paths of their settings: `egress.allow` is `allow` of the group `egress`. */
export type SettingsTree<Key extends SettingKey, Text = string, Count = number> = Fields<
  Key,
  "",
  undefined,
  Text,
  Count
> & {
  [Group in GroupOf<Key>]?: Fields<Key, `${Group}.`, undefined, Text, Count> | undefined;
};

/** The values that a command receives. All groups exist, and so do values with a default. */
export type Settings<Command extends SettingsCommand, Key extends SettingKey = KeyOf<Command>> = Given<Key, ""> & {
  [Group in GroupOf<Key>]: Given<Key, `${Group}.`>;
};

type Given<Key extends SettingKey, Prefix extends string> = Fields<Exclude<Key, WithValue>, Prefix> &
  Required<Fields<Extract<Key, WithValue>, Prefix>>;
type WithValue = {
  [Key in SettingKey]: (typeof settings)[Key] extends { default: unknown } | { isRequired: true } ? Key : never;
}[SettingKey];
type Fields<Key extends SettingKey, Prefix extends string, Absent = never, Text = string, Count = number> = {
  [One in Key as NameIn<One, Prefix>]?: ValueOf<One, Text, Count> | Absent;
};
type GroupOf<Key extends string> = Key extends `${infer Group}.${string}` ? Group : never;
/** The name of a setting in a group; without a prefix, of one in no group. */
type NameIn<Key, Prefix extends string> = Key extends `${Prefix}${infer Name}`
  ? Name extends `${string}.${string}`
    ? never
    : Name
  : never;
type ValueOf<Key extends SettingKey, Text, Count> = (typeof settings)[Key] extends {
  choices: readonly (infer Choice)[];
}
  ? [Text] extends [string]
    ? Choice
    : Text
  : { text: Text; number: Count; list: readonly Text[]; on: boolean; off: boolean }[(typeof settings)[Key]["kind"]];

/** The settings that a command takes, in the order of its help. */
export function keysOf<Command extends SettingsCommand>(command: Command): KeyOf<Command>[] {
  return wordsIn(commands[command]) as KeyOf<Command>[];
}

export function wordsIn<Lines extends string>(lines: readonly Lines[]): Words<Lines>[] {
  return lines.flatMap((line) => line.split(" ")) as Words<Lines>[];
}

/** A setting with the flag that a command has for it. */
export function settingOf(key: SettingKey, command: SettingsCommand): Setting {
  const setting: Setting = settings[key];
  return command === "manifests" ? { ...setting, ...setting.manifests } : setting;
}

/** The flag of a setting without its value: `--egress-allow`. */
export function flagName(key: SettingKey, command: SettingsCommand): string {
  return /--[-a-z]+/.exec(settingOf(key, command).flag)?.[0] ?? "";
}

/**
 * The flags for the servers' containers, of those settings that a server takes and `values` has. A container's arguments are texts;
 * in a Pulumi program, they are outputs.
 */
export function serverArguments(server: Server, values: object): unknown[] {
  const taken = new Set<string>(keysOf(server));
  const keys = (Object.keys(settings) as SettingKey[]).filter((key) => taken.has(key));
  return keys.flatMap((key) => argumentsOf(key, server, valueAt(values, key)));
}

function argumentsOf(key: SettingKey, server: Server, value: unknown): unknown[] {
  const flag = flagName(key, server);
  if (value === undefined) return [];
  if (Array.isArray(value)) return value.flatMap((each: unknown) => [flag, each]);
  if (typeof value === "boolean") return value === (settings[key].kind === "on") ? [flag] : [];
  return [flag, typeof value === "number" ? String(value) : value];
}

/** Converts those values that exist; each item of a list. */
export function mapSettings<Key extends SettingKey>(
  keys: readonly Key[],
  values: object,
  convert: (key: Key, value: unknown) => unknown,
): object {
  const converted = {};
  for (const key of keys) {
    const value = valueAt(values, key);
    if (Array.isArray(value))
      setAt(
        converted,
        key,
        value.map((each) => convert(key, each)),
      );
    else if (value !== undefined) setAt(converted, key, typeof value === "boolean" ? value : convert(key, value));
  }
  return converted;
}

/** The value at a path such as `egress.allow`. */
export function valueAt(values: object, path: string): unknown {
  return path.split(".").reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], values);
}

export function setAt(values: object, path: string, value: unknown): void {
  const [first = "", second] = path.split(".");
  const top = values as Record<string, unknown>;
  if (second === undefined) top[first] = value;
  else top[first] = { ...(top[first] as object | undefined), [second]: value };
}
