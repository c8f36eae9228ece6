import { InvalidArgumentError } from "commander";
import { errorCodes, isErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { type Io, printLine } from "../io.ts";
import { kindHelp, kindName } from "../object/commands.ts";
import type { UserKindName } from "../object/user-kind.ts";
import type { RametCommand } from "../ramet-command.ts";
import type { ExplainOptions } from "./explain.ts";
import { volumeKindNames, type VolumeKindName, volumeKindSpelled } from "./volume-kinds.ts";

type Subject = { kind: UserKindName | VolumeKindName; name: string } | { code: string };

interface Flags extends Omit<ExplainOptions, "objects"> {
  subjects: readonly Subject[];
  removeOrphanedFinalizer?: boolean;
}

export function explainCommand(program: RametCommand): void {
  program
    .command("explain")
    .description("Explain why an object is in its state and what to do, or what an error code means.")
    .argument("<object...>", `KIND/NAME, where KIND is ${explainedKinds}, or an error code`, collectSubject)
    .formats()
    .option(
      "--remove-orphaned-finalizer",
      "remove the finalizer that external-provisioner 6.2 left on the VolumeSnapshot, after checking that no claim restores it",
    )
    .clusterFlags()
    .examples(
      "ramet explain sandbox/a",
      "ramet explain snapshot/python-data set/python -o json",
      "ramet explain vs/before-upgrade pvc/data -n team-a",
      "ramet explain StoreFull",
    )
    .runs(() => Promise.resolve(explain), "subjects");
}

async function explain(io: Io, { subjects, removeOrphanedFinalizer = false, ...options }: Flags): Promise<void> {
  if (removeOrphanedFinalizer) {
    const name = onlySnapshot(subjects);
    const { removeFinalizer } = await import("./remove-finalizer.ts");
    await removeFinalizer(io, { ...options, name });
    return;
  }
  const codes = subjects.flatMap((subject) => ("code" in subject ? [subject.code] : []));
  const objects = subjects.flatMap((subject) => ("code" in subject ? [] : [subject]));
  if (objects.length === 0) {
    explainCodes(io, codes, options.output);
    return;
  }
  await (await import("./explain.ts")).explainObjects(io, { ...options, objects });
}

/** @throws RametError `InvalidArgument` */
function onlySnapshot([subject, ...others]: readonly Subject[]): string {
  if (others.length === 0 && subject !== undefined && "kind" in subject && subject.kind === "volumesnapshot")
    return subject.name;
  throw new RametError("InvalidArgument", "--remove-orphaned-finalizer is for one VolumeSnapshot", {
    hint: "Name it: ramet explain volumesnapshot/NAME --remove-orphaned-finalizer",
  });
}

function collectSubject(text: string, before: Subject[] = []): Subject[] {
  const slash = text.indexOf("/");
  if (slash < 0 && /^[A-Z][A-Za-z]+$/.test(text)) return [...before, { code: text }];
  const name = text.slice(slash + 1);
  if (slash < 1 || name === "" || name.includes("/"))
    throw new InvalidArgumentError("write it as KIND/NAME, such as sandbox/a");
  const kind = text.slice(0, slash);
  return [...before, { kind: volumeKindSpelled(kind) ?? kindName(kind), name }];
}

const explainedKinds = `${kindHelp.replace(" or ", ", ")}, ${volumeKindNames.slice(0, -1).join(", ")} or ${volumeKindNames.at(-1) ?? ""}`;

/** `ramet explain CODE`: prints what docs/errors.md says about error codes. @throws RametError `NotFound` */
export function explainCodes(io: Io, codes: readonly string[], output: "table" | "json"): void {
  const meanings = codes.map((code) => {
    if (!isErrorCode(code)) {
      throw new RametError("NotFound", `${code} is not an error code of Ramet`, {
        hint: "The codes are listed in docs/errors.md; explain an object with: ramet explain KIND/NAME",
      });
    }
    return { code, meaning: errorCodes[code] };
  });
  if (output === "json") printLine(io.stdout, JSON.stringify(meanings, undefined, 2));
  else for (const { code, meaning } of meanings) printLine(io.stdout, `${code}: ${meaning}`);
}
