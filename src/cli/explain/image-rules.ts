import type { Found } from "./explanation.ts";

export interface ImageProblem {
  pod: string;
  image: string;
  /** The reason of the waiting container, such as `ImagePullBackOff`. */
  reason: string;
  /** The message of the registry or the kubelet. */
  message: string;
  since: string | undefined;
  isLocal: boolean;
}

/** Explains an image that cannot be pulled, from the words of its registry and the kubelet, with the remedy that fits the registry's words. */
export function unpulledImage({ pod, image, reason, message, since, isLocal }: ImageProblem): Found {
  const never = reason === "ErrImageNeverPull" || reason === "InvalidImageName";
  return {
    cause: `The image ${image} cannot be pulled: ${message === "" ? reason : message}`,
    reason,
    since,
    retry: never
      ? "None until the template changes"
      : isLocal
        ? "The local node tries again every 2 seconds"
        : "The kubelet tries again after growing pauses of at most 5 minutes",
    action: remedyOf(message, image),
    foundIn: `pod/${pod}`,
  };
}

function remedyOf(message: string, image: string): string {
  return remedies.find(({ pattern }) => pattern.test(message))?.remedy(image) ?? "Correct the image in the template";
}

// The registries' words, as containerd and the OCI distribution specification pass them on.
const remedies: readonly { pattern: RegExp; remedy: (image: string) => string }[] = [
  {
    pattern: /no match for platform|exec format|does not match the specified platform/i,
    remedy: (image) => `Use an image for the nodes' architecture: ${image} has none`,
  },
  {
    pattern: /toomanyrequests|429|rate limit/i,
    remedy: () => "Add imagePullSecrets to the template, or use a mirror: the registry limits anonymous pulls",
  },
  {
    pattern:
      /unauthorized|\b401\b|\b403\b|forbidden|authorization failed|pull access denied|authentication required|denied/i,
    remedy: () => "Check the image's name, and add imagePullSecrets with access to its repository to the template",
  },
  {
    pattern: /x509|certificate/i,
    remedy: () => "Let the nodes trust the registry's certificate authority",
  },
  {
    pattern: /no space left on device/i,
    remedy: () => "Free space in the node's image file system",
  },
  {
    pattern:
      /no such host|i\/o timeout|connection refused|connection reset|network is unreachable|deadline exceeded|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT/i,
    remedy: () => "Give the nodes access to the registry: check its name, DNS and the network",
  },
];
