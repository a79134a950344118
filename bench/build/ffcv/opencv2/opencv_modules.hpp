// The modules that opencv2/opencv.hpp includes: see opencv4.pc.
#define HAVE_OPENCV_CORE
#define HAVE_OPENCV_IMGPROC
