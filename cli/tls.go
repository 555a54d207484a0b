package cli

import (
	"crypto/tls"

	urfave "github.com/urfave/cli/v2"

	"salectl/executor/httpd/access"
)

// tlsFlags returns the flags of TLS for a command that sends requests to servers.
func tlsFlags() []urfave.Flag {
	return []urfave.Flag{
		valueFlag("tls-ca", "trust servers whose certificates are signed by a CA in `FILE` (default: those of the system)"),
		valueFlag("tls-cert", "client certificate in `FILE`, for servers that require one"),
		valueFlag("tls-key", "private key of --tls-cert in `FILE`"),
	}
}

// tlsFiles parses the flags of TLS.
func (f *flags) tlsFiles() access.TLSFiles {
	files := access.TLSFiles{Cert: f.text("tls-cert"), Key: f.text("tls-key"), CA: f.text("tls-ca")}
	if (files.Cert == "") != (files.Key == "") {
		f.refuse("--tls-cert and --tls-key go together: name both files or none")
	}
	return files
}

// secrets are the credentials of a command for servers.
type secrets struct {
	tokenFile string
	tls       access.TLSFiles
}

// secrets parses the flags of token and TLS.
func (f *flags) secrets() secrets { return secrets{f.text("token-file"), f.tlsFiles()} }

// read reads the files.
func (s secrets) read() (token string, over *tls.Config, err error) {
	if token, err = access.ReadToken(s.tokenFile); err != nil {
		return "", nil, err
	}
	certificates, err := access.ReadCertificates(s.tls)
	return token, certificates.Client(), err
}

// words returns the flags as typed.
func (s secrets) words() (text string) {
	for _, flag := range [][2]string{
		{"token-file", s.tokenFile}, {"tls-ca", s.tls.CA}, {"tls-cert", s.tls.Cert}, {"tls-key", s.tls.Key},
	} {
		if flag[1] != "" {
			text += " --" + flag[0] + " " + quoted(flag[1])
		}
	}
	return text
}
