package control

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
)

// trustRequest is the body of /trust: a CA that the programs of the sandbox shall trust.
type trustRequest struct {
	// Certificate is in PEM.
	Certificate string `json:"certificate"`
	// Roots are the public CAs in PEM, for an image without any.
	Roots string `json:"roots"`
}

// bundles are the trust stores of OpenSSL, GnuTLS and Go in images: of Debian and Alpine, of Red Hat, and of SUSE.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

const maxBundleBytes = 8 << 20

// trust adds a CA to the trust stores of the image, and sets the variables of programs that have a store of their own. A CA that is
// already there changes nothing: a clone gets the one of its source.
func (s *Server) trust(w http.ResponseWriter, r *http.Request) {
	request, err := readTrust(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidArgument", "accepting a CA failed: "+err.Error())
		return
	}
	own := filepath.Join(s.StateDir, "ca.pem")
	err = os.MkdirAll(s.StateDir, 0o755)
	if err == nil {
		err = rewrite(own, []byte(request.Certificate))
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal", "accepting a CA failed: "+err.Error())
		return
	}
	bundle, warnings := addToBundles(s.bundles(), request)
	s.Identity.SetTrust(trustVariables(own, bundle))
	reply(w, http.StatusOK, map[string]any{"warnings": warnings})
}

func (s *Server) bundles() []string {
	if s.Bundles != nil {
		return s.Bundles
	}
	return bundles
}

func readTrust(from io.Reader) (trustRequest, error) {
	var request trustRequest
	body, err := io.ReadAll(io.LimitReader(from, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err != nil {
		return request, errors.New("the request is not valid")
	}
	if block, _ := pem.Decode([]byte(request.Certificate)); block == nil || block.Type != "CERTIFICATE" {
		return request, errors.New("certificate is not a certificate in PEM")
	}
	return request, nil
}

// addToBundles returns the first trust store that has the CA. An image without a store gets one with the public CAs.
func addToBundles(paths []string, request trustRequest) (bundle string, warnings []string) {
	warnings = []string{}
	for _, path := range paths {
		err := addToBundle(path, request.Certificate)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("adding the CA to %s: %v", path, err))
		} else if bundle == "" {
			bundle = path
		}
	}
	if bundle != "" || request.Roots == "" || len(paths) == 0 || len(warnings) > 0 {
		return bundle, warnings
	}
	err := os.MkdirAll(filepath.Dir(paths[0]), 0o755)
	if err == nil {
		err = os.WriteFile(paths[0], []byte(request.Roots+"\n"+request.Certificate), 0o644)
	}
	if err != nil {
		return "", append(warnings, fmt.Sprintf("creating %s: %v", paths[0], err))
	}
	return paths[0], warnings
}

func addToBundle(path, certificate string) error {
	about, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !about.Mode().IsRegular() || about.Size() > maxBundleBytes {
		return errors.New("it is not a file of certificates")
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte(certificate)) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString("\n" + certificate)
	return err
}

// trustVariables are those of programs that do not read the trust store of the system: Node.js adds the CA to its own, and the
// others replace theirs by the one of the system.
func trustVariables(own, bundle string) map[string]string {
	variables := map[string]string{"NODE_EXTRA_CA_CERTS": own}
	if bundle == "" {
		return variables
	}
	for _, name := range []string{
		"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "PIP_CERT", "DENO_CERT",
	} {
		variables[name] = bundle
	}
	return variables
}
