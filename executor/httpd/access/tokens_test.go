package access

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"salectl/executor/httpd/httpdtest"
)

// tokensOf returns the tokens of a file with that content.
func tokensOf(t testing.TB, content string) *Tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	httpdtest.WriteFile(t, path, content)
	tokens, err := ReadTokens(path, false)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestReadTokens(t *testing.T) {
	many := strings.Builder{}
	for i := range 65 {
		fmt.Fprintln(&many, "token", i)
	}
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		tokens  string // with their rights
		shown   string
		remedy  string // "": no error
	}{
		"one line":         {content: "s3cret\n", tokens: "s3cret 15", shown: "s3cret"},
		"for a group":      {content: "s3cret", mode: 0o640, tokens: "s3cret 15", shown: "s3cret"},
		"Windows line end": {content: "a claim\r\nb\r\n", tokens: "a 1, b 15", shown: "b"},
		"rights":           {content: "# of the shop\n\n a  claim \ne follow\nb operate\n#c\nd", tokens: "a 1, e 4, b 15, d 15", shown: "b"},
		"several rights":   {content: "a claim  confirm\ne follow claim\nf confirm\nb claim operate", tokens: "a 9, e 5, f 8, b 15", shown: "b"},

		"empty":             {content: "", remedy: "write a random one"},
		"only comments":     {content: "\n# none\n", remedy: "write a random one"},
		"nobody operates":   {content: "a claim\nb follow\n", remedy: "a line with a token alone"},
		"another right":     {content: "a\nb everything", remedy: "line 2"},
		"a comment behind":  {content: "a claim # the shop", remedy: "only its rights may follow: claim, confirm, follow or operate"},
		"one token twice":   {content: "a claim\n\na operate", remedy: "has the token of line 1 again"},
		"not ASCII":         {content: "né", remedy: "visible ASCII"},
		"a tab":             {content: "a\tclaim", remedy: "visible ASCII"},
		"something long":    {content: strings.Repeat("x", 5000), remedy: "more than 4096"},
		"something longer":  {content: strings.Repeat("# x\n", 20_000), remedy: "more than 65536"},
		"too many":          {content: strings.ReplaceAll(many.String(), " ", "-"), remedy: "65 tokens, at most 64"},
		"open for everyone": {content: "s3cret", mode: 0o644, remedy: "defaultMode: 0400"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			httpdtest.WriteFile(t, path, c.content)
			if c.mode != 0 { // whatever the umask
				if err := os.Chmod(path, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			tokens, err := ReadTokens(path, false)
			switch {
			case c.remedy == "" && err != nil:
				t.Fatal(err)
			case c.remedy != "" && (!errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), path)):
				t.Fatalf("got %v, want ErrBadToken with %q and the path", err, c.remedy)
			case c.remedy != "":
				return
			}
			var all []string
			for _, token := range tokens.set.Load().all {
				all = append(all, fmt.Sprint(token.text, " ", token.rights))
			}
			if got := strings.Join(all, ", "); got != c.tokens || tokens.Shown() != c.shown {
				t.Errorf("tokens %q, shown is %q", got, tokens.Shown())
			}
			if first, err := ReadToken(path); err != nil || !strings.HasPrefix(c.tokens, first+" ") {
				t.Errorf("a client sends %q, %v", first, err)
			}
		})
	}
	if _, err := ReadTokens(filepath.Join(t.TempDir(), "none"), false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if tokens, err := ReadTokens("", false); tokens != nil || err != nil || tokens.Shown() != "" {
		t.Errorf("no path: %v, %v", tokens, err)
	}
	// Where other machines can show one, a token that can be guessed is refused; a mark of an
	// editor before the first is no part of it.
	path := filepath.Join(t.TempDir(), "tokens")
	for content, fine := range map[string]bool{"\ufeff0123456789abcdef\r\n": true, "0123456789abcdef\n0123456789abcde claim\n": false} {
		httpdtest.WriteFile(t, path, content)
		tokens, err := ReadTokens(path, true)
		if fine && (err != nil || tokens.Shown() != "0123456789abcdef") {
			t.Errorf("%q: %v", content, err)
		}
		if !fine && (!errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), "the token in line 2 of "+path+" has 15 bytes, and at least 16 are needed")) {
			t.Errorf("%q: %v", content, err)
		}
	}
	for addr, open := range map[string]bool{"127.0.0.1:80": false, "[::1]:80": false, "localhost:0": false, ":80": true, "0.0.0.0:80": true, "shop:80": true} {
		if Reachable(addr) != open {
			t.Errorf("%s is open: %v", addr, !open)
		}
	}
	if token, err := ReadToken(""); token != "" || err != nil {
		t.Errorf("no path of a client: %q, %v", token, err)
	}
}
