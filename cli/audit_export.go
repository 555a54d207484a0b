package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"salectl/backends/ledger/export"
	"salectl/internal/files"
	"salectl/units"
)

// exportAudit is the additional result of the audit of an export.
type exportAudit struct {
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	Manifest bool   `json:"manifest"` // a manifest exists beside the file and was compared with it
	// Unproven lists what the file alone cannot prove.
	Unproven []string `json:"unproven"`
}

// auditExport audits the file o.export, without any backend.
func (p *program) auditExport(o auditOptions) error {
	defer sparing()()
	f, err := os.Open(o.export)
	if err != nil {
		return files.Explain(o.export, err)
	}
	defer f.Close()
	var key *units.Key
	if o.unitsKey != "" {
		if key, err = units.ReadKey(o.unitsKey); err != nil {
			return err
		}
	}
	a, unproven, err := export.Audit(f, key)
	if errors.As(err, new(*fs.PathError)) {
		return files.Explain(o.export, err)
	}
	if err != nil {
		return advised{fmt.Sprintf("auditing %s: %v", o.export, err),
			"Audit a file that 'salectl export' has written: a table (--csv) or an extract proves nothing.", err}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return files.Explain(o.export, err)
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return files.Explain(o.export, err)
	}
	x := &exportAudit{File: o.export, SHA256: hex.EncodeToString(digest.Sum(nil)), Unproven: unproven}
	declared, err := files.ReadManifest(o.export)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		x.Manifest = true
		a.Problems = append(a.Problems, err.Error())
	default:
		x.Manifest = true
		if has := hex.EncodeToString(declared); has != x.SHA256 {
			a.Problems = append(a.Problems, fmt.Sprintf("%s has the SHA-256 %s, but the file %s: one of the two was altered",
				files.ManifestPath(o.export), has, x.SHA256))
		}
	}
	a.OK = len(a.Problems) == 0
	found := audited{Report: a, Export: x}
	pick(o.json, func(a audited) { p.auditText(a, o.all) }, func(a audited) { p.emit(a) })(found)
	if !a.OK {
		return shown{errAudit}
	}
	return nil
}
