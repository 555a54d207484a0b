package access

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"salectl/backends/clock"
)

// reloadEvery is the interval of reloads. Files are small, and a change may leave their
// modification times equal.
const reloadEvery = time.Second

// Watch reloads tokens and certificates, which may be nil, every second until ctx ends. It logs changes,
// errors, and expiring certificates.
func Watch(ctx context.Context, log *slog.Logger, now clock.Clock, tokens *Tokens, certs *Certificates) {
	var badTokens, badCerts, warned string // last logged
	for {
		if tokens != nil {
			badTokens = reload(log, tokens, badTokens)
		}
		if certs != nil {
			badCerts = reload(log, certs, badCerts)
			warned = warn(log, certs, now().Wall, warned)
		}
		select {
		case <-time.After(reloadEvery):
		case <-ctx.Done():
			return
		}
	}
}

// warn logs a certificate warning unless it equals the last one, and returns it.
func warn(log *slog.Logger, c *Certificates, now time.Time, last string) string {
	warning := c.Warning(now)
	if warning != "" && warning != last {
		log.Warn(warning, "file", c.files.Cert, "remedy", "replace the certificate and its key; they are read again without a restart")
	}
	return warning
}

// reload reads files again. It logs an error unless it equals the last one, and returns it.
func reload(log *slog.Logger, files interface {
	fmt.Stringer
	Reload() (changed bool, err error)
}, last string) string {
	changed, err := files.Reload()
	switch {
	case err != nil && err.Error() != last:
		log.Error("a file is unusable; its earlier content stays in use", "file", files.String(), "why", err)
		return err.Error()
	case err != nil:
		return last
	case changed:
		log.Info("a file has changed and was read again", "file", files.String())
	}
	return ""
}
