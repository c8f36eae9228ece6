/** How one of the programs that Ramet needs is recognised and got. */
export interface Tool {
  /** The program's file name. */
  name: string;
  /** The version that is pinned: the name of its folder in the cache. */
  version: string;
  /** Whether the program at `path`, which printed this at `--version`, will do. Absent: only the cache is looked in. */
  fits?: (printed: string, path: string) => boolean | Promise<boolean>;
  release?: Release;
  build: GoBuild;
}

/** A program's official release. */
export interface Release {
  url: string;
  checksum: { url: string; algorithm: "sha256" | "sha512" };
  /** What the file at `url` is: the program itself, or an archive and the members of it that are wanted. */
  format: { kind: "program" } | { kind: "tar.gz" | "tar.zst"; strip: number; members: string[] };
}

export interface GoBuild {
  /** Folder of the Go module, absolute. */
  module: string;
  /** Import path of the program. */
  package: string;
  /** Values set at link time, by symbol. */
  set: Record<string, string>;
  /** A value of `GOEXPERIMENT` that a Go which does not know it goes without. */
  experiment?: string;
  /** What a build from nothing takes on two cores, for the progress line. */
  coldSeconds: number;
  /** Adds to the folder what the program wants beside it. */
  finish?: (folder: string) => Promise<void>;
}
