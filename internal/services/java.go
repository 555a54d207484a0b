package services

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
)

// javaCommand returns the command line of a Java program of HBase or Hadoop,
// whose configuration is in the folder conf.
func javaCommand(java, conf, heap, class string, args ...string) []string {
	command := []string{java}
	// What HBase and Hadoop reach for by reflection; Java 17 closed it.
	for _, name := range []string{"java.lang", "java.lang.reflect", "java.nio", "java.util", "sun.nio.ch", "jdk.internal.ref"} {
		command = append(command, "--add-opens", "java.base/"+name+"=ALL-UNNAMED")
	}
	command = append(command,
		"--add-exports", "java.base/jdk.internal.misc=ALL-UNNAMED",
		"--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED",
		"-Djava.security.manager=allow", // from Java 18 on Hadoop's log-in needs the permission
		"-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
		"-Xmx"+heap,
		"-cp", conf+":"+filepath.Join(jarFolder(), "lib", "*"),
		class)
	return append(command, args...)
}

// properties are the settings of a Hadoop configuration file.
type properties [][2]string

// write writes them in Hadoop's XML.
func (p properties) write(path string) error {
	var b strings.Builder
	b.WriteString("<configuration>\n")
	for _, property := range p {
		b.WriteString("  <property><name>" + property[0] + "</name><value>")
		if err := xml.EscapeText(&b, []byte(property[1])); err != nil {
			return err
		}
		b.WriteString("</value></property>\n")
	}
	b.WriteString("</configuration>\n")
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// logging sends the log of HBase, Hadoop and ZooKeeper to standard error.
const logging = `log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p [%t] %c{2}: %m%n
`

// writeLogging puts the settings of the log into the folder conf.
func writeLogging(conf string) error {
	return os.WriteFile(filepath.Join(conf, "log4j.properties"), []byte(logging), 0o644)
}
