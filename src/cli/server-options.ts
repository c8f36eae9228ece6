import { Option } from "commander";
import { type Settings, type SettingsCommand, keysOf, setAt, settingOf, wordsIn } from "../install/setting-values.ts";
import { besideSettings, type SettingKey } from "../install/settings.ts";
import type { Io } from "./io.ts";
import { parsed, wholeNumber } from "./options.ts";
import type { RametCommand } from "./ramet-command.ts";

/** Defines a command whose flags are settings. */
export function settingsCommand<Name extends SettingsCommand>(
  program: RametCommand,
  name: Name,
  load: () => Promise<(io: Io, settings: Settings<Name>) => Promise<number> | Promise<void>>,
): RametCommand {
  const command = program.command(name);
  for (const key of keysOf(name)) command.addOption(optionOf(key, name));
  return command.runs(async () => {
    const run = await load();
    return (io, values: Record<string, unknown>) => run(io, settingsFrom(name, values));
  });
}

function optionOf(key: SettingKey, command: SettingsCommand): Option {
  const setting = settingOf(key, command);
  const { kind, choices, check, conflicts, isRequired = false } = setting;
  const option = new Option(setting.flag, setting.help);
  if (kind === "number") option.argParser((text) => checked(text, check, wholeNumber(text)));
  else if (choices) option.choices(choices);
  else if (kind === "list" && check) {
    option.argParser<string[] | undefined>((text, before) => checked(text, check, [...(before ?? []), text]));
  } else if (check) option.argParser((text) => checked(text, check, text));
  if (setting.default !== undefined) option.default(setting.default);
  if (isRequired) option.makeOptionMandatory();
  if (key === "beside") option.conflicts(withoutEffectBeside(command));
  return conflicts ? option.conflicts([...conflicts]) : option;
}

function checked<T>(text: string, check: ((text: string) => unknown) | undefined, value: T): T {
  parsed(() => check?.(text));
  return value;
}

/** The attributes of flags without an effect there. */
function withoutEffectBeside(command: SettingsCommand): string[] {
  const used = new Set<SettingKey>(wordsIn(besideSettings));
  return keysOf(command)
    .filter((key) => !used.has(key) && key !== "noClusterRanges")
    .map((key) => attributeOf(key, command));
}

function attributeOf(key: SettingKey, command: SettingsCommand): string {
  return new Option(settingOf(key, command).flag).attributeName();
}

/** The settings in the values that commander has read. */
export function settingsFrom<Name extends SettingsCommand>(
  command: Name,
  values: Readonly<Record<string, unknown>>,
): Settings<Name> {
  const read: Record<string, unknown> = {};
  for (const key of keysOf(command)) {
    const [group = "", name] = key.split(".");
    if (name !== undefined) read[group] ??= {};
    const value = values[attributeOf(key, command)];
    // Commander reads `--no-cluster-range` as false for `--cluster-range`.
    if (value !== undefined) setAt(read, key, value === false && settingOf(key, command).kind === "list" ? [] : value);
  }
  return read as Settings<Name>;
}
