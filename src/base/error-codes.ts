/**
 * Every error code that users and programs can see, with its cause and remedy. Codes are stable: a released code is never reused for another meaning.
 * `docs/errors.md` is generated from this table.
 */
export const errorCodes = {
  InvalidArgument: "A value is not valid. Correct the field that the message names.",
  NotFound: "The named object, file or image does not exist. Check the name and the namespace.",
  AlreadyExists: "A different object with the same name exists. Choose another name, or delete the existing object.",
  Conflict:
    "The object changed in the meantime, or another operation on it is in progress. Repeat the operation when the other one has ended.",
  Unauthorized: "The request has no valid credentials. Send a valid token or API key.",
  Forbidden: "The caller is not allowed to do this. Ask an administrator for the permission that the message names.",
  Timeout:
    "An operation did not finish in time. Check that the component that the message names is running, then repeat the operation.",
  Unavailable: "A server is unreachable or still starting. Repeat the operation later.",
  Canceled: "The caller canceled the operation. Repeat the operation if you still need it.",
  Internal: "An unexpected error occurred. Read the log of the component, and report the error as a bug.",
  ToolMissing:
    "A required program is not installed and cannot be fetched or built. Install the program that the message names, or run `ramet local setup`.",
  HostUnsupported:
    "This machine lacks a kernel feature or a privilege that Ramet needs. Enable what the message names, or use another machine.",
  ImageNotFound:
    "The node does not have the image and cannot pull it. Check the image's name and the node's access to its registry.",
  TemplateMismatch:
    "The sandbox asks for something else than the checkpoint was taken from; the message names the field.",
  CheckpointNotReady: "The checkpoint has not succeeded (yet), so it cannot be cloned.",
  CheckpointLost: "The checkpoint's data is not in the store or does not have the digest that was recorded.",
  BackendMissing:
    "No installed backend can capture the requested contents, or restore a part of the checkpoint; the message names it.",
  NeedNotMet: "The node or its cell lacks something that the checkpoint needs; the message names it.",
  CheckpointTooNew: "The checkpoint was written by a newer version of Ramet than the one that reads it.",
  CheckpointTooLarge: "The checkpoint is larger than what the store takes; the source goes on.",
  StoreUnavailable: "The store cannot be reached or read: its folder is missing, or its bucket does not answer.",
  StoreReadOnly: "The store cannot be written.",
  StoreOfAnotherCluster: "The store is bound to another cluster; nothing of it was read, written or removed.",
  StoreFull: "The store has no room left.",
  GrantInvalid: "The grant is for another checkpoint, another use, or has expired.",
  EngineFailed: "gVisor refused or failed an operation; the message has its last words.",
  GuestUnreachable: "The guest inside the sandbox does not answer.",
  HandoverFailed: "A clone did not take its new identity in time and was never reachable.",
  SandboxNotReady: "The sandbox is not running and ready, and the operation needs that.",
  SandboxUnreachable: "The sandbox does not take connections at that port, or ended one before it had answered.",
  OutOfMemory: "The sandbox used more than its memory limit and was ended; its cell and its neighbours were not.",
  StepFailed:
    "A step of a named snapshot's recipe failed. The message has its number, exit status and last output. Correct the step in the recipe.",
  SandboxLost:
    "The process that ran the sandbox exited unexpectedly. Read the log of the sandbox's Pod, and create the sandbox again.",
} as const satisfies Record<string, string>;

export type ErrorCode = keyof typeof errorCodes;
