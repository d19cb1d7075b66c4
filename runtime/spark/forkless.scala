package tally.forkless

import java.net.URI
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{ChecksumFs, DelegateToFileSystem, FileStatus, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/** Hadoop's local files without a child process for each: by itself it runs `chmod` and `readlink`, where libhadoop is absent.
  *
  * Nothing else differs: the same renames, the same `.crc` files.
  */
class RawFileSystem extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = {
    // The sticky bit, a t in the place of the last x, is not known to java.nio; no file of Spark's has it.
    val letters = permission.toString.takeRight(9).replace('t', 'x').replace('T', '-')
    Files.setPosixFilePermissions(pathToFile(path).toPath, PosixFilePermissions.fromString(letters))
  }

  override def getFileLinkStatus(path: Path): FileStatus =
    if (Files.isSymbolicLink(pathToFile(path).toPath)) super.getFileLinkStatus(path) else getFileStatus(path)
}

/** For `fs.file.impl`. */
class FileSystem extends LocalFileSystem(new RawFileSystem)

class RawFs(uri: URI, configuration: Configuration)
    extends DelegateToFileSystem(uri, new RawFileSystem, configuration, "file", false) {
  override def getUriDefaultPort: Int = -1

  override def isValidName(name: String): Boolean = true
}

/** For `fs.AbstractFileSystem.file.impl`, through which Spark renames the files of a checkpoint. */
class Fs(uri: URI, configuration: Configuration) extends ChecksumFs(new RawFs(uri, configuration))
