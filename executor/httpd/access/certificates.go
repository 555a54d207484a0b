package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"salectl/executor/httpd/wire"
	"salectl/internal/files"
)

// ErrBadTLS reports that a file of certificates or keys is unusable.
var ErrBadTLS = errors.New("unusable TLS file")

// TLSFiles names the files of a process's certificate and of trusted authorities; "" means none.
type TLSFiles struct {
	Cert, Key string // own certificate with its intermediates, and its key
	CA        string // authorities of peers' certificates; "": those of the system
	ClientCA  string // for servers: authorities of clients' certificates; "": none is requested
}

// Certificates are the content of TLSFiles. They can be reloaded while in use. A nil *Certificates
// has none.
type Certificates struct {
	files TLSFiles
	now   atomic.Pointer[credentials]
}

// credentials are the content of TLSFiles at one time.
type credentials struct {
	content [][]byte
	leaf    *x509.Certificate // nil: none
	client  *tls.Config
	server  *tls.Config // nil: there is no certificate
}

// ReadCertificates reads files in PEM. It rejects a key that is readable by everyone on the machine
// or does not match the certificate. Without files it returns nil.
func ReadCertificates(files TLSFiles) (*Certificates, error) {
	if files == (TLSFiles{}) {
		return nil, nil
	}
	c := &Certificates{files: files}
	if _, err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again. Open connections are unaffected. If the files are unusable the previous
// content remains in force, since a certificate and its key may be replaced one after the other.
func (certs *Certificates) Reload() (changed bool, err error) {
	read, err := certs.files.read()
	if err != nil {
		return false, err
	}
	if before := certs.now.Load(); before != nil && bytes.Equal(bytes.Join(before.content, []byte{0}), bytes.Join(read.content, []byte{0})) {
		return false, nil
	}
	certs.now.Store(read)
	return true, nil
}

// String returns the names of the files.
func (certs *Certificates) String() string {
	f := certs.files
	names := slices.DeleteFunc([]string{f.Cert, f.Key, f.CA, f.ClientCA}, func(path string) bool { return path == "" })
	return "TLS " + strings.Join(names, ", ")
}

// Client returns a client configuration from the newest files, or nil for the default of net/http.
func (certs *Certificates) Client() *tls.Config {
	if certs == nil {
		return nil
	}
	return certs.now.Load().client
}

// Leaf returns the own certificate, or nil if there is none. With one, servers use TLS.
func (certs *Certificates) Leaf() *x509.Certificate {
	if certs == nil {
		return nil
	}
	return certs.now.Load().leaf
}

// ServerConfig returns a server configuration that uses the newest files for each connection.
func (certs *Certificates) ServerConfig() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return certs.now.Load().server, nil }}
}

// Warning returns a message if the certificate has expired or has less than a tenth of its validity
// left, and "" otherwise.
func (certs *Certificates) Warning(now time.Time) string {
	switch leaf := certs.Leaf(); {
	case leaf == nil:
		return ""
	case now.After(leaf.NotAfter):
		return "the certificate has expired at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	case leaf.NotAfter.Sub(now) < leaf.NotAfter.Sub(leaf.NotBefore)/10:
		return "the certificate expires at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

func (paths TLSFiles) read() (*credentials, error) {
	r := &credentials{client: new(tls.Config)}
	var err error
	if r.client.RootCAs, err = r.authorities(paths.CA); err != nil {
		return nil, err
	}
	clients, err := r.authorities(paths.ClientCA)
	if err != nil || paths.Cert == "" {
		return r, err
	}
	cert, err := r.read(files.Read, paths.Cert)
	if err != nil {
		return nil, err
	}
	key, err := r.read(files.ReadSecret, paths.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %s and %s are not a certificate and its key: %s", ErrBadTLS, paths.Cert, paths.Key, strings.TrimPrefix(err.Error(), "tls: "))
	}
	r.leaf = pair.Leaf
	r.client.Certificates = []tls.Certificate{pair}
	r.server = &tls.Config{Certificates: r.client.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	if clients != nil {
		// No tickets: the client's proof in an earlier handshake may no longer be valid.
		r.server.ClientCAs, r.server.ClientAuth, r.server.SessionTicketsDisabled = clients, tls.VerifyClientCertIfGiven, true
	}
	return r, nil
}

// maxPEM rejects files of another kind. The authorities of a system have some 200 KB.
const maxPEM = 4 << 20

// authorities returns the authorities in a file, or nil if path is "".
func (creds *credentials) authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	content, err := creds.read(files.Read, path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%w: %s has no certificate in PEM", ErrBadTLS, path)
	}
	return pool, nil
}

// read reads a file.
func (creds *credentials) read(read func(string, int64) ([]byte, error), path string) ([]byte, error) {
	content, err := readFile(read, "TLS file", path, maxPEM, ErrBadTLS)
	creds.content = append(creds.content, content)
	return content, err
}

// Require returns a handler that rejects clients without a certificate, unless the request is
// exempt. Without an authority of clients it returns handler.
//
// The handshake does not require a certificate, so that exempt requests need none. A handshake with
// a certificate of another authority fails.
func (certs *Certificates) Require(exempt func(*http.Request) bool, handler wire.Handler) wire.Handler {
	if certs == nil || certs.files.ClientCA == "" {
		return handler
	}
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		if (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) && !exempt(r) {
			return wire.Forbidden("This server requires a client certificate, but the connection has none.")
		}
		return handler(w, r)
	}
}

// readFile reads a file of up to most bytes. System errors begin with what; others wrap bad. With
// files.ReadSecret the file must not be readable by everyone on the machine.
func readFile(read func(string, int64) ([]byte, error), what, path string, most int64, bad error) ([]byte, error) {
	content, err := read(path, most)
	if exposed, is := errors.AsType[*files.ExposedError](err); is {
		return nil, fmt.Errorf("%w: %w", bad, exposed)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case int64(len(content)) > most:
		return nil, fmt.Errorf("%w: %s has more than %d bytes", bad, path, most)
	}
	return content, nil
}
