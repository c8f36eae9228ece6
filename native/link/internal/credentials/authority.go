package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"time"
)

// An Authority is a CA whose key exists only in this process. Its name and key follow from a seed, so a program that trusts the
// certificate of one authority trusts every other one with the same seed.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	roots       *x509.CertPool

	mu     sync.Mutex
	leaf   *ecdsa.PrivateKey
	issued map[string]*tls.Certificate
}

const (
	seedBytes  = 32
	maxIssued  = 256
	leafTime   = 24 * time.Hour
	leafMargin = time.Hour
)

var (
	authorityName = pkix.Name{CommonName: "Ramet sandbox credentials"}
	// Fixed: the certificate must not depend on when it was made.
	validFrom  = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	validUntil = time.Date(2049, 12, 31, 0, 0, 0, 0, time.UTC)
)

func newAuthority(seed []byte, roots string) (*Authority, error) {
	if len(seed) != seedBytes {
		return nil, wrong("the seed of the CA has %d bytes, not %d", len(seed), seedBytes)
	}
	a := &Authority{key: keyOf(seed), roots: x509.NewCertPool(), issued: map[string]*tls.Certificate{}}
	if roots != "" && !a.roots.AppendCertsFromPEM([]byte(roots)) {
		return nil, wrong("there is no certificate in the trusted certificates")
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: authorityName, NotBefore: validFrom, NotAfter: validUntil,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	// Without randomness the signature follows from the key (RFC 6979), so that a trust store does not get it twice.
	der, err := x509.CreateCertificate(nil, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.certificate, err = x509.ParseCertificate(der)
	}
	if err == nil {
		a.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	return a, err
}

// keyOf returns a key of P-256, which every TLS client supports. Nearly every seed is one; others are hashed until they are.
func keyOf(seed []byte) *ecdsa.PrivateKey {
	for {
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed); err == nil {
			return key
		}
		next := sha256.Sum256(seed)
		seed = next[:]
	}
}

// Certificate returns the CA's certificate in PEM.
func (a *Authority) Certificate() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

// forName returns the TLS configuration of a server with a certificate for this name only.
func (a *Authority) forName(name string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if normalName(hello.ServerName) != name {
				return nil, errors.New("another name")
			}
			return a.issue(name, time.Now())
		},
	}
}

func (a *Authority) issue(name string, now time.Time) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.issued[name]; known != nil && now.Add(leafMargin).Before(known.Leaf.NotAfter) {
		return known, nil
	}
	if len(a.issued) >= maxIssued {
		clear(a.issued)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{name},
		NotBefore: now.Add(-leafMargin), NotAfter: now.Add(leafTime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &a.leaf.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	certificate := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf, Leaf: parsed}
	a.issued[name] = certificate
	return certificate, nil
}
