/**
 * Every error code that users and programs can see, with its cause and remedy. Codes are stable: a released code is never
 * reused for another meaning.
 * `docs/errors.md` is generated from this table.
 */
export const errorCodes = {
  InvalidArgument: "A value is not valid. Correct the field that the message names.",
  NotFound: "The named object, file or image does not exist. Check the name and the namespace.",
  NotSupported:
    "Ramet does not support the requested feature. Leave out what the message names, or use the alternative.",
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
    "The sandbox's template differs from the template of the checkpoint. Change the field that the message names to the checkpoint's value.",
  CheckpointNotReady:
    "The checkpoint has not succeeded, so it cannot be cloned. Wait until its phase is Succeeded; if it is Failed, create a new checkpoint.",
  CheckpointLost:
    "The checkpoint's data is missing from the store or does not match the recorded digest. Restore the data from a backup, or delete the Checkpoint and create a new one.",
  VolumesNotCaptured:
    "The checkpoint does not contain the data of its source's PersistentVolumeClaims, and the request does not say which volumes the restored sandbox gets. Set the annotation `ramet.dev/volumes-on-restore` (`--volumes`, `volumesOnRestore`) to `Empty` for new claims, or to `Shared` for the claims of the source.",
  VolumeNotShareable:
    "The access mode of a PersistentVolumeClaim does not allow another Pod to mount it. Set `ramet.dev/volumes-on-restore` to `Empty`, or use a claim with another access mode.",
  VolumeNotCaptured:
    "The VolumeSnapshot of a PersistentVolumeClaim was not taken. The sandbox keeps running, and nothing remains of the checkpoint. Correct what the message names, then check the rest: `ramet doctor`.",
  VolumeNotImported:
    "A snapshot that a checkpoint imports cannot be used: its driver does not know it, or it is another one than the import describes. Nothing remains of the import, and the snapshot was not changed. Correct what the message names, and import again.",
  ImportsDisabled:
    "The controllers may not import volumes, because the installation does not allow it. Nothing was created. An administrator can install with `--import-volumes` (`importVolumes`).",
  ImportNotGuarded:
    "The admission policy that decides who may import volumes is missing, was changed, or is newer than the Checkpoint. Nothing was created. Apply the manifests of this release, then create another Checkpoint.",
  QuiesceFailed:
    "A command that a checkpoint runs in the sandbox before or after its capture has failed. The sandbox keeps running, and nothing was captured. Correct the command, or set its `onFailure` to `Continue`.",
  NotAtomic:
    "The checkpoint requires that memory and volumes are of one moment, and that is not possible here. The sandbox keeps running. Leave out `requireAtomic`, or change what the message names.",
  BackendMissing:
    "No installed backend can capture the requested contents or restore a part of the checkpoint. Install the backend that the message names.",
  OtherController:
    "Another controller owns the kinds that Ramet's controllers reconcile. Nothing was changed. Use `--beside=openkruise`, or remove the other controller and its CRDs first.",
  EngineMissing:
    "No known cell image has the engine that the checkpoint's memory needs. Name the cell image of the release that captured it with --earlier-cell-image, or capture the checkpoint again.",
  NeedNotMet:
    "The node or its cell lacks something that the checkpoint needs. Schedule the sandbox to a node that has what the message names.",
  CpuFeaturesMissing:
    "The CPU of the node lacks features that the checkpoint's memory needs. Add a node with these features, or capture the memory again on the nodes that exist; a checkpoint of [filesystem] alone needs none.",
  ImageReplaced:
    "The sandbox's image has other content under its name than at the capture. Give the earlier image its name again.",
  CheckpointTooNew: "A newer version of Ramet wrote the checkpoint. Upgrade Ramet to that version or a later one.",
  CheckpointTooLarge:
    "The checkpoint is larger than the store accepts, or a layer than its sandbox may write. The source keeps running. Give the sandbox less memory, use a directory store, or delete large files.",
  StoreUnavailable:
    "The store cannot be read: its directory is missing, or its bucket does not respond. Mount the directory, or check the network and the credentials for the bucket.",
  StoreReadOnly: "The store is not writable. Mount it read-write, or grant the controllers write access.",
  StoreOfAnotherCluster:
    "The store is bound to another cluster. Nothing in it was read, written or removed. Configure a separate store for each cluster.",
  KeyUnavailable:
    "The key that encrypts the data of a checkpoint is missing, or it is another one. Create or restore the key in the Secret that the message names.",
  CaptureRefused:
    "A capture would need more memory than the limit of the sandbox's container has left, and would end the sandbox. The sandbox keeps running. Raise the memory limit in the template, or free memory in the sandbox.",
  TooManyRequests:
    "The API key exceeds its limit of requests per second. Repeat the request after the time in Retry-After.",
  QuotaExceeded:
    "The namespace has reached the quota that the message names. Delete what you do not need, or ask an administrator to raise the quota.",
  StoreFull: "The store has no space left. Delete checkpoints that you do not need, or enlarge the store.",
  OutOfRange: "A size is outside of the possible range. Request a size within the range that the message names.",
  VolumesFull:
    "The file system of local volumes has no space left. Delete volumes and snapshots that you do not need, or enlarge the file system.",
  GrantInvalid:
    "The grant is for another checkpoint or another operation, or it has expired. Repeat the operation; if it fails again, compare the clocks of the nodes.",
  EngineFailed: "A gVisor operation failed. The message contains its last output. Read the log of the sandbox's Pod.",
  GuestUnreachable:
    "The guest inside the sandbox does not respond. Read the log of the sandbox's Pod, and restart the sandbox if the guest stays unreachable.",
  HandoverFailed:
    "A clone did not adopt its new identity in time. It never accepted connections. Check the sandbox's onRestore hooks, then create the clone again.",
  SandboxNotReady:
    "The operation needs a sandbox that is running and ready, and this one is not. Wait until the sandbox is Ready, or read its conditions.",
  SandboxUnreachable:
    "The sandbox does not accept connections on the port, or closed one before it responded. Check that a program in the sandbox listens on the port.",
  CellNotProven:
    "The process at the address of a sandbox's Pod did not prove that it is the sandbox's cell, so it was sent nothing. Check whether another Pod has the address; if the sandbox's own Pod has it, delete the sandbox.",
  OutOfMemory:
    "The sandbox exceeded its memory limit and was stopped. Its cell and other sandboxes were not affected. Raise the memory limit in the template.",
  StepFailed:
    "A step of a named snapshot's recipe failed. The message has its number, exit status and last output. Correct the step in the recipe.",
  SandboxLost:
    "The process that ran the sandbox exited unexpectedly. Read the log of the sandbox's Pod, and create the sandbox again.",
} as const satisfies Record<string, string>;

export type ErrorCode = keyof typeof errorCodes;

export function isErrorCode(word: string | undefined): word is ErrorCode {
  return word !== undefined && Object.hasOwn(errorCodes, word);
}
