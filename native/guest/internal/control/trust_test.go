package control

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/users"
)

const certificateText = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func TestTrustAddsTheCAOnce(t *testing.T) {
	dir := t.TempDir()
	bundle, missing := filepath.Join(dir, "bundle"), filepath.Join(dir, "none", "bundle")
	s := &Server{StateDir: filepath.Join(dir, "state"), Bundles: []string{missing, bundle}, Identity: identity.New([]string{"CURL_CA_BUNDLE=own"}, users.User{Name: "root", Home: "/"}, "")}
	call := func(body string) int {
		recorder := httptest.NewRecorder()
		s.trust(recorder, httptest.NewRequest("POST", "/trust", strings.NewReader(body)))
		return recorder.Code
	}
	request := `{"certificate":"` + strings.ReplaceAll(certificateText, "\n", `\n`) + `","roots":"public\n"}`
	if code := call(`{"certificate":"text"}`); code != 400 {
		t.Errorf("text that is no certificate: %d", code)
	}
	if err := os.WriteFile(bundle, []byte("others"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if code := call(request); code != 200 {
			t.Fatal(code)
		}
	}
	if text, _ := os.ReadFile(bundle); string(text) != "others\n"+certificateText {
		t.Errorf("the bundle is %q", text)
	}
	environment := strings.Join(s.Identity.CommandEnvironment(users.User{}, nil), " ")
	for _, want := range []string{"SSL_CERT_FILE=" + bundle, "NODE_EXTRA_CA_CERTS=" + s.StateDir + "/ca.pem", "CURL_CA_BUNDLE=own"} {
		if !strings.Contains(environment, want) {
			t.Errorf("%s is not in %s", want, environment)
		}
	}
	s.Bundles = []string{missing}
	if code := call(request); code != 200 {
		t.Fatal(code)
	}
	if text, _ := os.ReadFile(missing); string(text) != "public\n\n"+certificateText {
		t.Errorf("an image without a trust store gets %q", text)
	}
}
