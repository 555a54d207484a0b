package httpd

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/httpdtest"
)

// Large bodies that clients are sending take bounded memory, and small ones are read beside them.
func TestCrowdedBodies(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: sells,
		SettleFunc: func(context.Context, executor.Settlement) executor.Answer {
			return executor.Answer{Outcome: api.NoSuchClaim}
		}}}})
	s.bodies = access.NewMemory(2*claimBufferSize + 1024)
	large := `{"user":"ada"` + strings.Repeat(" ", claimBufferSize) + "}"
	wants := func(path, body string, status int, detail string) {
		t.Helper()
		r := post(t, s, path, body, nil)
		after := r.Header.Get("Retry-After") == "1"
		if said := text(t, r); r.StatusCode != status || !strings.Contains(said, detail) || after != (status == 429) {
			t.Errorf("%s: %d %s, want %d %s", path, r.StatusCode, said, status, detail)
		}
	}
	settle := claimsPath + "/1-2-3/extend"
	wants(claimsPath, large, 201, "sold")
	body, sent := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, claimsPath, body)
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(w, r)
		body.Close() // nobody writes what is not read
		ended <- w.Code
	}()
	if _, err := io.WriteString(sent, large[:claimBufferSize+1]); err != nil { // all of it is read
		t.Fatal(err)
	}
	wants(claimsPath, large, 429, "Too many requests are waiting")
	wants(claimsPath, `{"user":"ada"}`, 201, "sold")
	wants(settle, "{"+strings.Repeat(" ", 1024)+"}", 429, "Too many requests are waiting; this one was not processed. Repeat the request")
	if _, err := io.WriteString(sent, large[claimBufferSize+1:]); err != nil {
		t.Fatal(err)
	}
	sent.Close()
	if status := <-ended; status != 201 {
		t.Errorf("the body that was read: %d", status)
	}
	wants(claimsPath, large, 201, "sold")
	wants(settle, "{"+strings.Repeat(" ", 1024)+"}", 404, "no_such_claim")
	if held := s.bodies.InUse(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}
