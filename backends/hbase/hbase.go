// Package hbase keeps logs in an HBase table.
package hbase

import _ "github.com/tsuna/gohbase"
