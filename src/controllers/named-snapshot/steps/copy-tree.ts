import type { CopyStep } from "../../../api/recipe/recipe.ts";
import { type LogTail, runCommand } from "./run-command.ts";
import type { StepEnvironment, StepOutcome, StepRequest } from "./step.ts";

/**
 * Unpacks a directory tree in the sandbox, and merges it into its target. Root does that for another user, because the target can be
 * anywhere. The tree is only as dangerous as a command of the recipe. Can be repeated.
 */
export async function copyTree(
  copy: CopyStep & { tree: string },
  { context, tag }: StepRequest,
  environment: StepEnvironment,
  log: LogTail,
): Promise<Pick<StepOutcome, "exitCode" | "error">> {
  const { guest, treeOf, signal } = environment;
  const { user, workingDirectory: _, shell: _shell, ...rest } = context;
  const as = user === undefined ? {} : { user: "0" };
  const archive = `/tmp/.${tag}.tar`;
  await treeOf(copy.tree, (content) => guest(as.user).writeFile(archive, content, signal), signal);
  const variables = {
    RAMET_ARCHIVE: archive,
    RAMET_STAGING: `/tmp/.${tag}`,
    RAMET_FROM: copy.treePath ?? ".",
    RAMET_TO: copy.path,
    RAMET_OWNER: user ?? "",
    RAMET_MODE: copy.mode ?? "",
  };
  const request = {
    commandLine: unpack,
    context: { ...rest, ...as, environment: { ...context.environment, ...variables } },
    tag,
    fresh: true,
    timeoutSeconds,
  };
  return runCommand(request, environment, log);
}

const timeoutSeconds = 600;

/**
 * For sh with the tar, cp and chown of coreutils or BusyBox. A tree's directories are merged into existing ones, whose attributes
 * stay where tar can do that; files are replaced. Set-uid, set-gid and sticky bits are dropped.
 */
const unpack = `set -e
rm -rf "$RAMET_STAGING"
mkdir -p "$RAMET_STAGING"
trap 'rm -rf "$RAMET_STAGING" "$RAMET_ARCHIVE"' EXIT
tar -x -o -f "$RAMET_ARCHIVE" -C "$RAMET_STAGING"
rm -f "$RAMET_ARCHIVE"
cd "$RAMET_STAGING"
from="$RAMET_FROM"
if [ ! -e "$from" ] && [ ! -L "$from" ]; then echo "the tree has no $from" >&2; exit 1; fi
if [ -n "$RAMET_OWNER" ]; then
  chown -hR "$RAMET_OWNER:$RAMET_OWNER" "$from" 2>/dev/null || chown -hR "$RAMET_OWNER" "$from"
fi
if [ ! -L "$from" ]; then
  chmod -R u-s,g-s,o-t "$from"
  if [ -n "$RAMET_MODE" ]; then chmod -R "$RAMET_MODE" "$from"; fi
fi
if [ -d "$from" ] && [ ! -L "$from" ]; then
  mkdir -p "$RAMET_TO"
  merge=""
  if tar --help 2>&1 | grep -q -e --keep-directory-symlink; then merge="--no-overwrite-dir --keep-directory-symlink"; fi
  tar -c -f "$RAMET_ARCHIVE" -C "$from" .
  tar -x -p $merge -f "$RAMET_ARCHIVE" -C "$RAMET_TO"
else
  case "$RAMET_TO" in */) mkdir -p "$RAMET_TO" ;; *) mkdir -p "$(dirname "$RAMET_TO")" ;; esac
  mv -f "$from" "$RAMET_TO"
fi`;
