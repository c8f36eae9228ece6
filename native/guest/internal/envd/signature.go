package envd

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"time"
)

// checkSignature accepts a signed link instead of the token, so that a link to a file can be shared. The signature is
// `v1_` and the unpadded base64 of the SHA-256 of path:operation:user:token, with :expiry (unix seconds) where there is one. The errors
// are in envd's words, which its clients can show.
func checkSignature(token, operation string, query url.Values) error {
	signed := query.Get("path") + ":" + operation + ":" + query.Get("username") + ":" + token
	expiry := query.Get("signature_expiration")
	if expiry != "" {
		signed += ":" + expiry
	}
	sum := sha256.Sum256([]byte(signed))
	want := "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
	if subtle.ConstantTimeCompare([]byte(want), []byte(query.Get("signature"))) != 1 {
		return errors.New("invalid signature")
	}
	if expiry == "" {
		return nil
	}
	seconds, err := strconv.ParseInt(expiry, 10, 64)
	if err != nil || time.Now().Unix() > seconds {
		return errors.New("signature is already expired")
	}
	return nil
}
