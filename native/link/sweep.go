package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"ramet.dev/native/link/internal/tree"
)

const sweepUsage = `usage:
  ramet-link sweep DIRECTORY    removes the caches of deleted namespaces, now and every hour, from a Pod with access to the API
`

const (
	sweepEvery     = time.Hour
	sweepTimeout   = 5 * time.Minute
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	// mostOfList is the largest page of a list: 50 namespaces, each with at most 256 KiB of annotations. The decoder holds it twice.
	mostOfList = 16 << 20
)

// ofNamespace is the name of a directory that a kubelet has made for the Pods of a namespace: the UID of the namespace. No other directory
// is touched.
var ofNamespace = regexp.MustCompile(`^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func sweepForever(args []string) int {
	if len(args) != 1 {
		fmt.Fprint(os.Stderr, sweepUsage)
		return 2
	}
	api := &namespaceAPI{
		base:      "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")),
		directory: serviceAccount,
	}
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	for {
		removed, err := sweep(ended, args[0], api.uids)
		for _, path := range removed {
			log.Printf("removed %s: its namespace was deleted", path)
		}
		if err != nil {
			log.Printf("sweeping %s failed, and is repeated in an hour: %v", args[0], err)
		}
		select {
		case <-ended.Done():
			return 0
		case <-time.After(sweepEvery):
		}
	}
}

// sweep removes the directories whose namespaces do not exist. UIDs are not used again, and a directory exists only if its namespace has
// or had a Pod: one that is not in a list that is younger than the directory was deleted.
func sweep(ctx context.Context, directory string, uids func(context.Context) (map[string]bool, error)) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	existing, err := uids(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the namespaces: %w", err)
	}
	var removed []string
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() || !ofNamespace.MatchString(name) || existing[name] {
			continue
		}
		path := filepath.Join(directory, name)
		if failed := tree.Remove(path); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		removed = append(removed, path)
	}
	return removed, err
}

type namespaceAPI struct{ base, directory string }

type namespacePage struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	} `json:"items"`
}

// uids reads all pages from the API server's store, not from its cache.
func (a *namespaceAPI) uids(ctx context.Context) (map[string]bool, error) {
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	uids := map[string]bool{}
	for next := ""; ; {
		page, err := a.page(ctx, client, next)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			uids[item.Metadata.UID] = true
		}
		if next = page.Metadata.Continue; next == "" {
			break
		}
	}
	// An answer of another server would delete everything.
	if len(uids) == 0 || uids[""] {
		return nil, errors.New("the answer has no namespaces")
	}
	return uids, nil
}

func (a *namespaceAPI) client() (*http.Client, error) {
	pem, err := os.ReadFile(filepath.Join(a.directory, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}, nil
}

func (a *namespaceAPI) page(ctx context.Context, client *http.Client, next string) (*namespacePage, error) {
	// The kubelet renews the token.
	token, err := os.ReadFile(filepath.Join(a.directory, "token"))
	if err != nil {
		return nil, err
	}
	query := url.Values{"limit": {"50"}, "continue": {next}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+"/api/v1/namespaces?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the API server answered %s", response.Status)
	}
	page := &namespacePage{}
	return page, json.NewDecoder(io.LimitReader(response.Body, mostOfList)).Decode(page)
}
