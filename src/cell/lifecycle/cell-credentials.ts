import { rootCertificates } from "node:tls";
import type { LinkCredentials } from "../../api/wire/cell-api.ts";
import type { GuestControl } from "../client/guest-control.ts";
import type { Link } from "../network/link.ts";

/** Hands credentials to link, and keeps nothing of them but the certificate that the sandbox must trust. */
export class CellCredentials {
  #certificate: string | undefined;

  /** @throws RametError `InvalidArgument`, which names no value */
  async give(link: Link, credentials: LinkCredentials): Promise<void> {
    const trusted = credentials.tls?.trusted;
    const roots = [publicRoots(), ...(trusted === undefined ? [] : [trusted])].join("\n");
    this.#certificate = await link.setCredentials(credentials, credentials.tls === undefined ? "" : roots);
  }

  /** Makes the programs of the sandbox trust link's CA, if there is one. A repeat changes nothing. */
  async trustedBy(guest: GuestControl): Promise<void> {
    if (this.#certificate !== undefined) await guest.trust(this.#certificate, publicRoots());
  }
}

/** The public CAs of Node.js: the cell's image may have none. */
function publicRoots(): string {
  return rootCertificates.join("\n");
}
