// Package httpdtest has what the tests of httpd and of the packages below it share: a sale whose answers
// a test chooses, and files of tokens and certificates.
package httpdtest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/internal/services/certs"
)

// Fake is a sale whose answers a test chooses. A nil function answers with the zero value.
type Fake struct {
	Name       string
	ClaimFunc  func(context.Context, executor.Request) executor.Answer
	SettleFunc func(context.Context, executor.Settlement) executor.Answer
	UserFunc   func(string) ([]executor.Claim, api.Outcome)
	FindFunc   func(executor.ClaimID) (executor.Claim, api.Outcome)
	QueryFunc  func(executor.Query) executor.Answer // nil: UserFunc and FindFunc
	StatusFunc func() executor.Status
	ReadyFunc  func() error
	AcceptFunc func(*streampb.Hello, func(*streampb.Reply) error) (func(*streampb.Request) bool, func())
	At         executor.Place
}

var _ executor.Service = (*Fake)(nil)

func (f *Fake) Sale() string { return f.Name }

func (f *Fake) Do(ctx context.Context, r executor.Request) executor.Answer {
	switch {
	case r.Settle != nil:
		return f.SettleFunc(ctx, *r.Settle)
	case r.Query == nil:
		return f.ClaimFunc(ctx, r)
	case f.QueryFunc != nil:
		return f.QueryFunc(*r.Query)
	case r.Query.User == "":
		claim, why := f.FindFunc(r.Query.Claim)
		return executor.Answer{Claim: claim, Outcome: why}
	}
	claims, why := f.UserFunc(r.Query.User)
	return executor.Answer{Claims: claims, Outcome: why}
}

func (f *Fake) Begin(r executor.Request, answered func(executor.Answer)) (cancel func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer cancel(); answered(f.Do(ctx, r)) }()
	return cancel
}

func (f *Fake) Place(user string) executor.Place { return f.At }

func (f *Fake) PlaceOf(int) executor.Place { return f.At }

func (f *Fake) Refuse(_ executor.Request, a executor.Answer) executor.Answer { return a }

func (f *Fake) Status() executor.Status {
	var s executor.Status
	if f.StatusFunc != nil {
		s = f.StatusFunc()
	}
	s.Sale = f.Name
	return s
}

func (f *Fake) Ready() error {
	if f.ReadyFunc == nil {
		return nil
	}
	return f.ReadyFunc()
}

func (f *Fake) Accept(hello *streampb.Hello, send func(*streampb.Reply) error) (handle func(*streampb.Request) bool, gone func()) {
	if f.AcceptFunc == nil {
		return nil, nil
	}
	return f.AcceptFunc(hello, send)
}

// SoldTo returns the answer to a claim that got unit 1.
func SoldTo(user string) executor.Answer {
	return executor.Answer{Outcome: api.Sold, Claim: executor.Claim{
		ID: executor.ClaimID{Shard: 3, Slot: 1234, Index: 56}, User: user, Units: []int64{1}, State: api.Sold, At: time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC),
	}}
}

// WriteFile writes a file that only its owner can read.
func WriteFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Authority returns a new certificate authority.
func Authority(t testing.TB, name string) *certs.Authority {
	t.Helper()
	a, err := certs.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Issue writes a certificate for loopback, and returns the names of its file and of that of its key.
func Issue(t testing.TB, a *certs.Authority, dir, name string, l certs.Leaf) (cert, key string) {
	t.Helper()
	l.Hosts = []string{"127.0.0.1", "localhost"}
	if err := a.Write(dir, name, l); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
}

// SmallBuffers returns a transport of HTTP/2 that receives little before its reader reads.
func SmallBuffers() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 64 << 10}}
}
